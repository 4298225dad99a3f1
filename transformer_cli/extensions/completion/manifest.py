"""What this extension adds, as plain data."""

api = 1
provides = {
    "program": {"shells": {"load": "shells:prepare"}},
    "completion": {"shells": {"load": "completing:complete"}},
}
