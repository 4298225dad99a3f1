TABLES = (".tsv", ".jsonl")
"""The file extensions of tables from which ``translate`` can read one column or field."""

needs = ("checks", "revision")
provides = {
    "corpus": {
        "corpus": {
            "settings": "settings:CorpusData",
            "load": "prepared:SourcesKind",
            "text files": "prepared:find_text_files",
        }
    },
    "data settings": {
        "more": {"load": "settings:MoreSettings", "kinds": ("files", "multi30k", "toy")},
        "replay": {"load": "settings:ReplaySettings", "kinds": ("files",)},
    },
    # Training text besides the split train, and how often each part is drawn.
    "mixing": {
        "sources": {
            "load": "mixing:mix_store",
            "open": "mixing:extend_text",
            "keys": ("sources", "more", "replay"),
            "tags": "settings:tag_names",
        }
    },
    "translate options": {
        "tables": {
            "load": "options:TableOptions",
            "endings": TABLES,
            "reads": f"a table ({', '.join(TABLES)})",
        }
    },
    "init": {
        "own": {
            "load": "own_text:configure_own",
            "help": "Your own text: two files, line n of one translates line n of the other.",
        },
        "opus": {
            "load": "own_text:configure_opus",
            "help": "Corpora by name: lists those of OPUS in two languages; opus:NAME starts "
            "from one.",
        },
    },
    "init options": {"text": {"load": "init:TextOptions"}},
    "command": {"clean": {"load": "command:clean"}},
}
