"""What this extension adds, as plain data."""

api = 1
provides: dict[str, dict[str, dict[str, object]]] = {
    "observer": {
        "tensorboard": {"load": "events:TensorBoardObserver"},
        "curves": {"load": "curves:CurvesObserver"},
        "memory": {"load": "memory:MemoryCheck"},
        "rate jump": {"load": "rate_jump:RateJumpWarning"},
        "forecast": {"load": "preview:ForecastPreview"},
    },
    "run file": {"curves.png": {}, "tensorboard": {}},
}
