provides = {
    "engine": {
        "ctranslate2": {"load": "choosing:ENGINE", "mark": "model.bin", "reader": "CTranslate2"}
    }
}
