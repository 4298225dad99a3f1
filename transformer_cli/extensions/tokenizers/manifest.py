"""What this extension adds, as plain data."""

api = 1
provides = {
    "tokenizer": {
        "huggingface": {"settings": "settings:HuggingFaceConfig", "load": "huggingface:Manifest"},
    }
}
