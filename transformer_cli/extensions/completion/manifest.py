"""What this extension adds, as plain data."""

api = 1
provides = {"completion": {"shells": {"load": "shells:prepare", "values": "completing:complete"}}}
