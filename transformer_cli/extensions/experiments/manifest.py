"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "sweep": {"load": "command_sweep:sweep"},
        "distill": {"load": "command_distill:distill"},
        "compare": {"load": "command_compare:compare"},
    }
}
