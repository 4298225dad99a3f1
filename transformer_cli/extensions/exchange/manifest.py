"""What this extension adds, as plain data."""

api = 1
provides = {
    "corpus": {"imported": {"load": "imported:ImportedKind"}},
    "command": {
        "export": {"load": "command_export:export"},
        "import": {"load": "command_import:import_"},
    },
    "tokenizer": {"marian": {"settings": "settings:MarianConfig", "load": "marian:Manifest"}},
}
