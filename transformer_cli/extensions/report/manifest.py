"""What this extension adds, as plain data."""

api = 1
needs = ("config_tools", "verbatim")
provides = {
    "run file": {"report.html": {"unlocked": True}},
    "command": {"report": {"load": "command:report"}},
}
