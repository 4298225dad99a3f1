needs = ("corpora", "ctranslate2", "tokenizers")
provides = {
    "corpus": {"imported": {"settings": "imported:ImportedData", "load": "imported:ImportedKind"}},
    "run file": {"import.json": {"inherited": True}},
    "command": {
        "export": {"load": "command:export"},
        "import": {"load": "command:import_"},
    },
    "exported model": {"hub": {"mark": "config.json", "load": "hub_model:HubModel"}},
    "export format": {  # formats.py explains the keys
        "ctranslate2": {
            "load": "to_ctranslate2:write_ctranslate2",
            "reader": "CTranslate2",
            "package": "ctranslate2",
            "quantization": "float32",
        },
        "onnx": {
            "load": "to_onnx:write_onnx",
            "reader": "ONNX Runtime",
            "package": "onnx",
            "extra": "export",
            "values": "norm_kind: layernorm",  # torch's exporter supports no other
        },
        "transformers": {
            "load": "to_transformers:write_transformers",
            "check": "to_transformers:check_transformers",
            "reader": "transformers",
            # Marian and Pegasus have neither gates nor learned positions.
            "values": "norm_kind: layernorm; positions: sinusoidal; activation: relu, gelu, swish",
        },
        "hub": {"load": "to_hub:write_hub", "reader": "transformer-cli"},
    },
    "tokenizer": {
        "marian": {
            "settings": "imported:MarianConfig",
            "load": "marian:MarianManifest",
            "model": "sentencepiece",
        }
    },
}
