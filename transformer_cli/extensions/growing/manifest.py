needs = ("checks", "corpora", "experiments", "revision")
provides: dict[str, dict[str, dict[str, object]]] = {
    "train options": {"growing": {"load": "train_options:GrowingOptions"}},
    "translate options": {
        "corrections": {
            "load": "memory_options:MemoryOptions",
            "acts_unasked": True,
            "acts_in_python": True,
        }
    },
    "run file": {
        "growth.yaml": {"configuration": True},
        **{name: {} for name in ("growth", "growth.json", "corrections.tsv")},
    },
}
