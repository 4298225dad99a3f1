needs = ("verbatim",)
provides = {
    "translate options": {"revision": {"load": "options:RevisionOptions", "acts_unasked": True}},
}
