"""The features that this extension adds, as plain data."""

api = 1
needs = ("corpora", "revision", "verbatim")
provides = {
    "tokenizer settings": {"protect": {"load": "settings:ProtectSettings"}},
    "codec": {"reserved": {"load": "kind:KIND"}},
    "translate options": {"constraints": {"load": "options:ConstraintOptions"}},
    "evaluate options": {"constraints": {"load": "options:EvaluateConstraintOptions"}},
}
