"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "sweep": {
            "load": "command_sweep:sweep",
            "help": "Train many variations of a configuration, each with several seeds, and "
            "compare them.",
        },
        "distill": {
            "load": "command_distill:distill",
            "help": "Train a student on what its teachers translate.",
        },
        "compare": {
            "load": "command_compare:compare",
            "help": "Compare trained models: scores on the same text, costs, and the settings that "
            "differ.",
        },
    },
    "run collection": {"sweep": {"mark": "sweep.json", "runs": "runs/*/*", "shared": "data"}},
    "run file": {"growth.yaml": {}, "growth.json": {}, "replay": {}},
    "report page": {"sweep": {"load": "page:open_sweep_page", "mark": "sweep.json"}},
}
