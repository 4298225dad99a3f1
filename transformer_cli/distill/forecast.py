"""Forecast what is left of a distillation: time and disk of each stage."""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch

from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import stream_lines
from transformer_cli.distill.composition import open_text
from transformer_cli.distill.plan import DistillPlan
from transformer_cli.distill.runner import is_done
from transformer_cli.distill.stages import Stage, Text
from transformer_cli.ranks import SINGLE_PROCESS
from transformer_cli.runs.checkpoint import list_checkpoints, newest_step
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.training.forecast import checkpoint_bytes, forecast, trial_fits
from transformer_cli.training.optimizer import last_step
from transformer_cli.training.preparation import (
    Callbacks,
    PreparedData,
    TrainRequest,
    build_trainer,
    open_data_dry,
)

_PROBED = 3
"""Trial batches of a training: of many stages, each may be forecast less exactly than alone."""


@dataclass(frozen=True)
class StageForecast:
    """What a stage takes."""

    name: str
    is_done: bool
    lines: int | None = None
    """Lines to translate."""
    seconds: float | None = None
    """None: unknown, or nothing to speak of."""
    disk: int = 0
    """Bytes of what it makes."""
    is_short: bool = False
    """Whether it takes no time to speak of."""


@dataclass(frozen=True)
class _Size:
    lines: int
    src: int
    """Bytes."""
    tgt: int


class _Pace(NamedTuple):
    """What a training's time and disk follow from."""

    step_seconds: float | None
    """None: a step does not fit into memory."""
    disk: int
    steps_per_epoch: int


@dataclass(frozen=True)
class StageForecaster:
    """Forecasts the stages of a plan, and writes nothing that stays."""

    plan: DistillPlan
    device: torch.device
    precision: torch.dtype
    reporters: Callbacks
    _opened: ExitStack = field(default_factory=ExitStack)
    _data: dict[str, PreparedData] = field(default_factory=dict)
    """By settings: models of one distillation mostly share text and tokenizer."""
    _paces: dict[str, _Pace] = field(default_factory=dict)
    """By settings, but for the seed and the length of the training."""

    def forecast(self) -> list[StageForecast]:
        """Return the forecast of each stage."""
        with self._opened:
            return list(self._forecast_stages())

    def _forecast_stages(self) -> Iterator[StageForecast]:
        is_behind = False
        for stage in self.plan.stages():
            is_teacher = stage.kind == "train" and stage.run != self.plan.directory.student
            done = not (is_behind and not is_teacher) and is_done(self.plan.directory, stage)
            is_behind |= not done
            yield StageForecast(stage.name, True) if done else self._forecast(stage)

    def _forecast(self, stage: Stage) -> StageForecast:
        if stage.kind == "train":
            return self._forecast_training(stage)
        if stage.text is not None:
            return self._forecast_translation(stage, stage.text)
        disk = self._corpus.src + self._corpus.tgt if stage.kind == "text" else 0
        return StageForecast(stage.name, False, disk=disk, is_short=stage.kind != "select")

    def _forecast_translation(self, stage: Stage, text: Text) -> StageForecast:
        size = self._measure(text)
        rates = self.plan.directory.line_rates()
        seconds = size.lines / statistics.median(rates) if rates else None
        # A translation is about as long as its source.
        disk = size.src * stage.candidates
        return StageForecast(stage.name, False, size.lines, seconds, disk)

    @cached_property
    def _corpus(self) -> _Size:
        lines = src_bytes = tgt_bytes = 0
        for src, tgt in open_text(self.plan.distillation.student, "train").pairs():
            lines += 1
            src_bytes += len(src.encode()) + 1
            tgt_bytes += len(tgt.encode()) + 1
        return _Size(lines, src_bytes, tgt_bytes)

    def _measure(self, text: Text) -> _Size:
        if text.path == self.plan.directory.text("train", "src"):
            return self._corpus
        if text.path == self.plan.directory.text("train", "tgt"):
            return _Size(self._corpus.lines, self._corpus.tgt, self._corpus.src)
        lengths = [len(line.encode()) + 1 for line in stream_lines(text.path)]
        return _Size(len(lengths), sum(lengths), 0)

    def _forecast_training(self, stage: Stage) -> StageForecast:
        assert stage.config is not None
        assert stage.run is not None
        if stage.run != self.plan.directory.student:
            seconds, disk = self._try_training(stage.config, stage.run)
            return StageForecast(stage.name, False, None, seconds, disk)
        with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
            # Its text is not there yet, so it is tried on the corpus alone.
            seconds, disk = self._try_training(
                stage.config, RunDirectory(Path(directory) / "student"), self._growth
            )
        return StageForecast(stage.name, False, None, seconds, disk)

    @cached_property
    def _growth(self) -> float:
        """How much more text the student is trained on than the corpus."""
        translated = [stage.text for stage in self.plan.stages() if stage.text is not None]
        lines = sum(self._measure(text).lines for text in translated)
        kept = self._corpus.lines if self.plan.distillation.settings.keep_reference else 0
        return (kept + lines) / self._corpus.lines

    def _try_training(
        self, config: Config, run: RunDirectory, growth: float = 1.0
    ) -> tuple[float | None, int]:
        """Return the seconds that a training takes, None if that is not known, and its disk."""
        if config.init is not None and not list_checkpoints(config.init / "checkpoints"):
            config = config.model_copy(update={"init": None})
        pace = self._find_pace(config, run)
        total_steps = last_step(config.training, pace.steps_per_epoch)
        left = total_steps - newest_step(run.checkpoints)
        if left <= 0:
            return 0.0, pace.disk
        if pace.step_seconds is None:
            return None, pace.disk
        if config.training.max_steps is not None:
            growth = min(growth, config.training.max_steps / total_steps)
        return pace.step_seconds * left * growth, pace.disk

    def _find_pace(self, config: Config, run: RunDirectory) -> _Pace:
        """Time a few steps, unless a training of the same settings has been timed."""
        key = config.model_dump_json(
            exclude={"seed": True, "training": {"epochs", "max_steps", "patience"}}
        )
        if key not in self._paces:
            data = self._open_data(config, run)
            trainer = build_trainer(config, data, run, self.device, self.precision, SINGLE_PROCESS)
            disk = checkpoint_bytes(config, trainer.model)
            fits = trainer.total_steps > 0 and trial_fits(trainer, config)
            expected = forecast(trainer, trainer.sample(_PROBED)) if fits else None
            seconds = None if expected is None else expected.idle_seconds / trainer.total_steps
            self._paces[key] = _Pace(seconds, disk, trainer.steps_per_epoch)
        return self._paces[key]

    def _open_data(self, config: Config, run: RunDirectory) -> PreparedData:
        """Open a run's data, or prepare it unless that was done for the same settings."""
        settings = config.model_dump_json(
            include={
                "data": True,
                "tokenizer": True,
                "init": True,
                "training": {"max_length", "batch_tokens", "src_bpe_dropout", "tgt_bpe_dropout"},
            }
        )
        key = f"{run.path if run.config.is_file() else ''} {settings}"
        if key not in self._data:
            request = TrainRequest(config, {}, run, False, False)
            opening = open_data_dry(request, SINGLE_PROCESS, self.reporters)
            self._data[key] = self._opened.enter_context(opening)
        return self._data[key]
