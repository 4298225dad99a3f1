"""What this extension adds, as plain data."""

api = 1
needs = ("corpora", "revision", "verbatim")
provides = {
    "setting": {
        "tokenizer.protect": {"load": "settings:ProtectSettings"},
        "data.terms": {"load": "settings:TermsSettings"},
    },
    "codec": {"reserved": {"load": "kind:KIND"}},
    "translate options": {"constraints": {"load": "options:ConstraintOptions"}},
    "evaluate options": {"constraints": {"load": "options:EvaluateConstraintOptions"}},
    "augmentation": {"terms": {"load": "kind:build_inline_terms", "changes": "words"}},
}
