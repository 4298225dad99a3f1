"""What this extension adds, as plain data."""

api = 1
provides = {
    "provenance": {"fetched": {"load": "provenance:record_fetched"}},
    "run file": {"fetched.json": {}},
    "corpus": {"corpus": {"load": "kind:SourcesKind"}},
    # What is trained on beside the split train, and how often each part is drawn.
    "mixing": {
        "sources": {
            "load": "mixing:find_mix",
            "open": "mixing:open_added",
            "keys": ("sources", "more", "replay"),
        }
    },
    "translate options": {"tables": {"load": "options:TableOptions"}},
    "evaluate options": {"tables": {"load": "options:ScoredTableOptions"}},
    "command": {"clean": {"load": "command:clean"}},
}
