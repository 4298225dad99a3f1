"""What this extension adds, as plain data."""

api = 1
provides = {
    "corpus": {"imported": {"settings": "settings:ImportedData", "load": "imported:ImportedKind"}},
    "provenance": {"imported": {"load": "provenance:record_import"}},
    "run file": {"import.json": {}},
    "preview": {"export": {"load": "preview:ExportPreview"}},
    "command": {
        "export": {"load": "command_export:export"},
        "import": {"load": "command_import:import_"},
    },
    "tokenizer": {"marian": {"settings": "settings:MarianConfig", "load": "marian:Manifest"}},
}
