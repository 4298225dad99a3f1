needs = ("alignments", "checks", "constraints", "documents", "growing")
provides: dict[str, dict[str, dict[str, object]]] = {
    "command": {"serve": {"load": "command:serve"}},
    "run file": {"served": {"unlocked": True, "stays": True}},
}
