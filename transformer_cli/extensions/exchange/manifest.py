"""What this extension adds, as plain data."""

api = 1
provides = {
    "provenance": {"imported": {"load": "provenance:record_import"}},
    "run file": {"import.json": {}},
    "corpus": {"imported": {"load": "imported:ImportedKind"}},
    "command": {
        "export": {"load": "command_export:export"},
        "import": {"load": "command_import:import_"},
    },
    "tokenizer": {"marian": {"settings": "settings:MarianConfig", "load": "marian:Manifest"}},
}
