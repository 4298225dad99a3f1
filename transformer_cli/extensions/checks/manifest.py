"""What this extension adds, as plain data."""

api = 1
provides = {
    "text_check": {"audit": {"load": "text_audit:TextAudit"}},
    "command": {
        "check": {
            "load": "command:check",
            "help": "Check an experiment's text before training on it.",
        }
    },
}
