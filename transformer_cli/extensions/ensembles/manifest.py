provides = {
    "translate options": {"ensemble": {"load": "options:EnsembleOptions"}},
    "evaluate options": {"ensemble": {"load": "options:EvaluateEnsembleOptions"}},
}
