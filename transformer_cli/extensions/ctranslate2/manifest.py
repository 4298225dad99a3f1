"""What this extension adds, as plain data."""

api = 1
provides = {
    "engine": {
        "ctranslate2": {
            "load": "loading:ENGINE",
            "mark": "model.bin",
            "reader": "CTranslate2",
        },
    },
}
