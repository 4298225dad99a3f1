"""What this extension adds, as plain data."""

api = 1
provides: dict[str, dict[str, dict[str, str]]] = {
    "train options": {"growing": {"load": "train_options:GrowingOptions"}},
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
}
