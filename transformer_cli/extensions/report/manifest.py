needs = ("verbatim",)
provides = {
    "run file": {"report.html": {"unlocked": True}},
    "command": {"report": {"load": "command:report"}, "runs": {"load": "command:runs"}},
}
