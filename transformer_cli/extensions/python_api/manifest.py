"""What this extension adds, as plain data."""

api = 1
provides = {
    "python": {
        "Translation": {"load": "translator:Translation"},
        "Translator": {"load": "translator:Translator"},
    },
}
