provides: dict[str, dict[str, dict[str, object]]] = {
    "evaluate options": {"calibrate": {"load": "options:CalibrateOptions"}},
    "translate options": {"confidence": {"load": "options:RiskOptions"}},
    "run file": {"calibration.json": {"unlocked": True}},
}
