"""What this extension adds, as plain data."""

api = 1
provides = {"command": {"average": {"load": "command:average"}}}
