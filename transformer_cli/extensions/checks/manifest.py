"""What this extension adds, as plain data."""

api = 1
provides = {"command": {"check": {"load": "command:check"}}}
