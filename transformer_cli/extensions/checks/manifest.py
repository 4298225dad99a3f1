"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "check": {
            "load": "command:check",
            "help": "Check an experiment's text before training on it.",
        }
    },
    "tokenizer check": {"characters": {"load": "lost_characters:describe_lost_characters"}},
}
