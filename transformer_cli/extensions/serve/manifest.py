"""The features that this extension adds, as plain data."""

api = 1
needs = ("alignments", "checks", "constraints", "documents", "growing")
provides = {
    "command": {"serve": {"load": "command:serve"}},
    "run file": {"served": {}},
}
