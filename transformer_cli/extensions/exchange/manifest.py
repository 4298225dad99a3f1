"""What this extension adds, as plain data."""

api = 1
provides = {
    "corpus": {"imported": {"load": "imported:ImportedKind"}},
    "preview": {"export": {"load": "preview:ExportPreview"}},
    "command": {
        "export": {
            "load": "command_export:export",
            "help": "Write a trained model in a format that other programs read.",
        },
        "import": {
            "load": "command_import:import_",
            "help": "Make a run of a Marian model of transformers, such as OPUS-MT's.",
        },
    },
    "tokenizer": {"marian": {"settings": "settings:MarianConfig", "load": "marian:Manifest"}},
}
