"""What this extension adds, as plain data."""

api = 1
provides = {
    "setting": {
        "tokenizer.protect": {"load": "settings:ProtectSettings"},
        "data.terms": {"load": "settings:TermsSettings"},
    },
}
