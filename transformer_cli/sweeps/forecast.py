"""Forecast what a sweep takes: time, disk and memory."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from transformer_cli.config.schema import Config
from transformer_cli.ranks import SINGLE_PROCESS
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.sweeps.points import Point
from transformer_cli.sweeps.sweep_file import Sweep
from transformer_cli.sweeps.tasks import data_task
from transformer_cli.text.protocol import ProgressBar
from transformer_cli.training.forecast import PROBED, forecast
from transformer_cli.training.memory import checkpoint_bytes
from transformer_cli.training.preparation import PreparedData, prepare_data
from transformer_cli.training.setup import build_trainer
from transformer_cli.training.sources import prepare_sources
from transformer_cli.training.texts import Warn, audit_texts


@dataclass(frozen=True)
class RunForecast:
    """What one run of a point takes."""

    point: Point
    seconds: float | None
    """Training time, without validations; None: a step does not fit into memory or is not finite.
    """
    disk: int
    """Bytes of its checkpoints."""
    memory: int | None
    """Bytes at least; None where ``seconds`` is."""


@dataclass(frozen=True)
class Forecaster:
    """Forecasts the runs of a sweep, one after the other, and writes nothing that stays."""

    sweep: Sweep
    device: torch.device
    precision: torch.dtype
    progress: ProgressBar
    warn: Warn

    def forecast(self, points: Sequence[Point]) -> Iterator[RunForecast]:
        """Yield the forecast of each point, from a few training steps."""
        with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
            for point in points:
                yield self._forecast_run(point, Path(directory))

    def _forecast_run(self, point: Point, directory: Path) -> RunForecast:
        config = self.sweep.config_of(point)
        run = RunDirectory(directory / data_task(self.sweep.base, point, config).name)
        run.path.mkdir(parents=True, exist_ok=True)
        data = self._prepare(config, run)
        trainer = build_trainer(config, data, run, self.device, self.precision, SINGLE_PROCESS)
        expected = forecast(trainer, trainer.sample(PROBED))
        return RunForecast(
            point,
            None if expected is None else expected.idle_seconds,
            checkpoint_bytes(config, trainer.model),
            None if expected is None else expected.memory,
        )

    def _prepare(self, config: Config, run: RunDirectory) -> PreparedData:
        prepare_sources(config.data, run, lambda pairs, _: pairs, lambda _: None)
        texts = audit_texts(config.data, run, False, True, self.warn)
        return prepare_data(config, texts, run, self.progress)
