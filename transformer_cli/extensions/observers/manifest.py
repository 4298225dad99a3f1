"""What this extension adds, as plain data."""

api = 1
provides: dict[str, dict[str, dict[str, str]]] = {
    "observer": {
        "tensorboard": {"load": "events:TensorBoardObserver"},
        "curves": {"load": "curves:CurvesObserver"},
    },
    "preview": {
        "rate jump": {"load": "rate_jump:RateJumpPreview"},
        "forecast": {"load": "preview:ForecastPreview"},
    },
    "run file": {"curves.png": {}, "tensorboard": {}},
}
