"""What this extension adds, as plain data."""

api = 1
provides = {
    "tokenizer": {
        "wordpiece": {"settings": "settings:WordPieceConfig", "load": "wordpiece:Manifest"},
        "huggingface": {"settings": "settings:HuggingFaceConfig", "load": "huggingface:Manifest"},
    }
}
