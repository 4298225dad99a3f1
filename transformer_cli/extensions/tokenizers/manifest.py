"""What this extension adds, as plain data."""

api = 1
provides = {
    "tokenizer": {
        "wordpiece": {"load": "wordpiece:Manifest"},
        "huggingface": {"load": "huggingface:Manifest"},
    }
}
