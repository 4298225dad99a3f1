"""The features that this extension adds, as plain data."""

provides = {
    "engine": {
        "ctranslate2": {"load": "choosing:ENGINE", "mark": "model.bin", "reader": "CTranslate2"}
    }
}
