needs = ("alignments", "prefixes")
provides = {
    "python": {
        "Translation": {"load": "translator:Translation"},
        "Translator": {"load": "translator:Translator"},
    },
}
