"""The features that this extension adds, as plain data."""

needs = ("alignments", "prefixes")
provides = {
    "python": {
        "Translation": {"load": "translator:Translation"},
        "Translator": {"load": "translator:Translator"},
    },
}
