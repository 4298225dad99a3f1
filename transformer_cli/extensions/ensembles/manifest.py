"""The features that this extension adds, as plain data."""

api = 1
provides = {
    "translate options": {"ensemble": {"load": "options:EnsembleOptions"}},
    "evaluate options": {"ensemble": {"load": "options:EvaluateEnsembleOptions"}},
}
