"""The features that this extension adds, as plain data."""

needs = ("verbatim",)
provides = {
    "translate options": {"revision": {"load": "options:RevisionOptions", "acts_unasked": True}},
}
