"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "bench": {
            "load": "command:bench",
            "help": "Measure what this machine does with this program, in about a minute.",
        }
    }
}
