"""Forecasts of experiments need those of trainings."""

from pathlib import Path

import pytest

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.extensions.experiments.forecast import Forecaster


def test_without_forecasts_of_trainings_there_are_none_of_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find", lambda *_: None)
    with pytest.raises(UsageError, match=r"^forecast: no such preview of a training is installed"):
        Forecaster(tmp_path, [], print)
