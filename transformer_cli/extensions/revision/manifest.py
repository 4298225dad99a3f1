"""The features that this extension adds, as plain data."""

api = 1
needs = ("verbatim",)
provides = {
    "translate options": {"revision": {"load": "options:RevisionOptions", "acts_unasked": True}},
}
