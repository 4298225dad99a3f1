"""What this extension adds, as plain data."""

api = 1
provides = {
    "run file": {"report.html": {"unlocked": True}},
    "command": {"report": {"load": "command:report"}},
}
