"""The features that this extension adds, as plain data."""

api = 1
needs = ("corpora", "revision", "verbatim")
provides = {
    "tokenizer settings": {"protect": {"load": "settings:ProtectSettings"}},
    "data settings": {"terms": {"load": "settings:TermsSettings"}},
    "codec": {"reserved": {"load": "kind:KIND"}},
    "translate options": {"constraints": {"load": "options:ConstraintOptions"}},
    "evaluate options": {"constraints": {"load": "options:EvaluateConstraintOptions"}},
    "augmentation": {"terms": {"load": "kind:find_changes"}},
}
