"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "clean": {
            "load": "command:clean",
            "help": "Write what the filters of a corpus keep, and what they reject.",
        }
    }
}
