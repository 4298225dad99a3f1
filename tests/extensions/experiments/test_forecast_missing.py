"""Forecasts of experiments need those of trainings."""

from pathlib import Path

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.extensions.experiments.forecast import preview_sweep
from transformer_cli.extensions.experiments.runner import Computing
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
from transformer_cli.extensions.experiments.sweep_file import load_sweep


def test_without_forecasts_of_trainings_there_are_none_of_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = load_sweep(Path("configs/sweeps/copy.yaml"))
    plan = SweepPlan(sweep, SweepDirectory(tmp_path), Computing())
    monkeypatch.setattr(registry, "find", lambda *_: None)
    with pytest.raises(UsageError, match=r"^forecast: no such preview of a training is installed"):
        next(preview_sweep(plan))
