needs = ("checks", "corpora", "report")
provides: dict[str, dict[str, dict[str, object]]] = {
    "training settings": {"init_share": {"load": "settings:InitShareSettings"}},
    "average": {"init_share": {"load": "initial_share:InitialShare"}},
    "command": {
        "sweep": {"load": "command:sweep"},
        "distill": {"load": "command:distill"},
        "compare": {"load": "command_compare:compare"},
    },
}
