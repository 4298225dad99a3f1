needs = ("corpora", "revision", "verbatim")
provides = {
    "tokenizer settings": {"protect": {"load": "settings:ProtectSettings"}},
    "codec": {"reserved": {"load": "kind:KIND"}},
    "init options": {"purpose": {"load": "init_options:PurposeOptions"}},
    "translate options": {"constraints": {"load": "options:ConstraintOptions"}},
    "evaluate options": {"constraints": {"load": "options:EvaluateConstraintOptions"}},
}
