"""The features that this extension adds, as plain data."""

provides = {
    "translate options": {"ensemble": {"load": "options:EnsembleOptions"}},
    "evaluate options": {"ensemble": {"load": "options:EvaluateEnsembleOptions"}},
}
