provides: dict[str, dict[str, dict[str, object]]] = {
    "observer": {
        "tensorboard": {"load": "events:TensorBoardObserver"},
        "preview": {"load": "preview:Preview"},
    },
    "training settings": {"max_minutes": {"load": "settings:TimeSettings"}},
    "run file": {"tensorboard": {}, "time_limit.json": {}},
}
