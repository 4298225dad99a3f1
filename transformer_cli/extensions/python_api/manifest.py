"""The features that this extension adds, as plain data."""

api = 1
needs = ("alignments", "prefixes")
provides = {
    "python": {
        "Translation": {"load": "translator:Translation"},
        "Translator": {"load": "translator:Translator"},
    },
}
