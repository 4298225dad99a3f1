provides = {
    "tokenizer": {
        "sentencepiece_file": {
            "settings": "settings:SentencePieceFileConfig",
            "load": "sentencepiece_file:SentencePieceFileManifest",
            "model": "sentencepiece",
        },
        "huggingface": {
            "settings": "settings:HuggingFaceConfig",
            "load": "huggingface:HuggingFaceManifest",
        },
    }
}
