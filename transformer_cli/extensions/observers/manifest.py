"""What this extension adds, as plain data."""

api = 1
provides: dict[str, dict[str, dict[str, object]]] = {
    "observer": {
        "tensorboard": {"load": "events:TensorBoardObserver"},
        "curves": {"load": "curves:CurvesObserver"},
    },
    "preview": {
        "rate jump": {"load": "rate_jump:RateJumpPreview", "of_resumed": True},
        "forecast": {"load": "preview:ForecastPreview"},
    },
    "training check": {"memory": {"load": "memory:check_memory"}},
    "run file": {"curves.png": {}, "tensorboard": {}},
}
