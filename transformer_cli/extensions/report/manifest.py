"""What this extension adds, as plain data."""

api = 1
provides = {
    "command": {
        "report": {"load": "command:report"},
        "attention": {"load": "command_attention:attention"},
    }
}
