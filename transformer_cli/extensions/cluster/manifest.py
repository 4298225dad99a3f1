"""What this extension adds, as plain data."""

api = 1
provides = {"guard": {"fence": {"load": "fence:FENCE", "variable": "TRANSFORMER_CLI_FENCE"}}}
