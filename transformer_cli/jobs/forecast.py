"""Forecast what jobs take, without writing anything that stays."""

import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import stream_lines
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.files import read_small
from transformer_cli.jobs.distill import STUDENT_JOB, TEXT_JOB, DistillPlan
from transformer_cli.jobs.job import Job
from transformer_cli.jobs.runner import ERROR, Command, run_command
from transformer_cli.jobs.student_text import open_text
from transformer_cli.runs.checkpoint import list_checkpoints, newest_step
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.training.optimizer import last_step

_RUN_DIR = "--run-dir"


class Training(NamedTuple):
    """A training to be forecast."""

    command: Sequence[str]
    """Its arguments: train, the configuration and its settings, --run-dir, and others."""
    config: Config

    @property
    def settings_of_data(self) -> Sequence[str]:
        """The arguments that say what it is trained on."""
        return self.command[1 : self.command.index(_RUN_DIR)]

    @property
    def run(self) -> RunDirectory:
        """Where it may have begun."""
        return RunDirectory(Path(self.command[self.command.index(_RUN_DIR) + 1]))

    @property
    def settings(self) -> str:
        """What a step's time depends on: all but for the seed and the length of the training."""
        length = {"epochs", "max_steps", "patience"}
        return self.config.model_dump_json(exclude={"seed": True, "training": length})

    @property
    def data_settings(self) -> str:
        """What its data depends on."""
        return self.config.model_dump_json(include={"data", "tokenizer", "init"})


class TrainingForecast(NamedTuple):
    """What a training takes."""

    seconds: float | None
    """On an idle machine, without validations; None: a step does not fit into memory or is not
    finite."""
    disk: int
    """Bytes of its checkpoints."""
    memory: int | None
    """Bytes at least; None where ``seconds`` is."""


class _DryRun(BaseModel):
    """What ``train --dry-run --json`` prints."""

    steps: int
    steps_done: int
    steps_per_epoch: int
    seconds: float | None
    """Of the steps that are left."""
    memory: int | None
    disk: int


@dataclass
class Forecaster:
    """Tries trainings, each by its own command's dry run, and equal ones once.

    A process each: so the memory of one is not that of the one before.
    """

    directory: Path
    """A temporary one."""
    trainings: Sequence[Training]
    """All that will be asked for."""
    log: Callable[[str], object]
    """Takes what the commands say, each line once."""
    _said: set[str] = field(default_factory=set)
    _tried: dict[str, _DryRun] = field(default_factory=dict)
    _prepared: dict[str, Path] = field(default_factory=dict)

    def forecast(self, training: Training, growth: float = 1.0) -> TrainingForecast:
        """Return what the rest of a training takes.

        Args:
            training: one of those to be tried.
            growth: how much more text there will be than is tried.

        Raises:
            ConfigError, RunError: it cannot be begun.
        """
        tried = self._tried.get(training.settings) or self._try(training)
        self._tried[training.settings] = tried
        steps = last_step(training.config.training, round(tried.steps_per_epoch * growth))
        left = max(0, steps - newest_step(training.run.checkpoints))
        seconds = None
        if not left:
            seconds = 0.0
        elif tried.seconds is not None:
            seconds = tried.seconds / max(1, tried.steps - tried.steps_done) * left
        return TrainingForecast(seconds, tried.disk, tried.memory)

    def _try(self, training: Training) -> _DryRun:
        run = training.run.path if training.run.config.is_file() else self._prepare(training)
        output = self.directory / "forecast.json"
        # Of two directories, the last one counts.
        self._run([*training.command, _RUN_DIR, str(run), "--dry-run", "--json"], output)
        return _DryRun.model_validate(json.loads(read_small(output)))

    def _prepare(self, training: Training) -> Path:
        """Return a run directory with the data that several trainings share, or a new one."""
        key = training.data_settings
        if key not in self._prepared:
            run = self.directory / f"run-{len(self._prepared)}"
            sharing = {each.settings for each in self.trainings if each.data_settings == key}
            if len(sharing) > 1:
                vocab = ["vocab", *training.settings_of_data, _RUN_DIR, str(run)]
                self._run(vocab, self.directory / "summary")
            self._prepared[key] = run
        return self._prepared[key]

    def _run(self, command: Sequence[str], stdout: Path) -> None:
        log = self.directory / "log"
        log.unlink(missing_ok=True)
        ended = run_command(Command(command, self.directory / "stop", stdout, log))
        for line in read_small(log).decode(errors="replace").splitlines():
            if line and line not in self._said and not line.startswith(ERROR):
                self._said.add(line)
                self.log(line)
        if ended.code:
            raise (ConfigError if ended.code == 2 else RunError)(ended.message)


class JobForecast(NamedTuple):
    """What a job of a distillation takes."""

    name: str
    is_done: bool
    lines: int | None = None
    """Lines to translate."""
    seconds: float | None = 0.0
    """None: unknown; 0: nothing to speak of."""
    disk: int = 0
    """Bytes of what it makes."""


class _Size(NamedTuple):
    lines: int
    src: int
    """Bytes."""
    tgt: int


class DistillForecaster:
    """Forecasts the jobs of a distillation."""

    def __init__(self, plan: DistillPlan, log: Callable[[str], object]) -> None:
        self._plan = plan
        self._directory = plan.directory
        self._jobs = list(plan.jobs())
        self._log = log

    def forecast(self) -> list[JobForecast]:
        """Return the forecast of each job."""
        undone: dict[str, Job] = {}
        for job in self._jobs:
            is_behind = any(need in undone for need in job.needs)
            if is_behind or not self._directory.seems_done(job):
                undone[job.name] = job
        trainings = {
            name: self._training(job, job.config)
            for name, job in undone.items()
            if job.config is not None
        }
        forecasts = []
        with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
            forecaster = Forecaster(Path(directory), [*trainings.values()], self._log)
            for job in self._jobs:
                if job.name in trainings:
                    growth = self._growth if job.name == STUDENT_JOB else 1.0
                    expected = forecaster.forecast(trainings[job.name], growth)
                    forecast = JobForecast(job.name, False, None, expected.seconds, expected.disk)
                elif job.name in undone:
                    forecast = self._forecast_text(job)
                else:
                    forecast = JobForecast(job.name, True)
                forecasts.append(forecast)
        return forecasts

    def _training(self, job: Job, config: Config) -> Training:
        """Return a job's training; a new one of the student, whose text is not there yet."""
        command = [*job.command]
        if job.name == STUDENT_JOB:
            command[1] = str(self._plan.distillation.student_file)
            command[command.index(_RUN_DIR) + 1] = str(self._directory.path / "student-to-be")
        if config.init is not None and not list_checkpoints(config.init / "checkpoints"):
            config = config.model_copy(update={"init": None})
            command += ["--set", "init=null"]
        return Training(command, config)

    def _forecast_text(self, job: Job) -> JobForecast:
        if job.text is None:
            if job.name == TEXT_JOB:
                return JobForecast(job.name, False, disk=self._corpus.src + self._corpus.tgt)
            return JobForecast(job.name, False, seconds=0.0 if job.command else None)
        size = self._measure(job.text)
        seconds = size.lines / statistics.median(self._line_rates) if self._line_rates else None
        # A translation is about as long as its source.
        return JobForecast(job.name, False, size.lines, seconds, size.src * job.candidates)

    @cached_property
    def _growth(self) -> float:
        """How much longer the student's training is with all its text than on the corpus."""
        lines = sum(self._measure(job.text).lines for job in self._jobs if job.text is not None)
        kept = self._corpus.lines if self._plan.distillation.settings.keep_reference else 0
        return (kept + lines) / self._corpus.lines

    @cached_property
    def _line_rates(self) -> list[float]:
        """Lines a second of the jobs that have translated."""
        records = [(job.text, self._directory.read(job.name)) for job in self._jobs]
        return [
            self._measure(text).lines / record.seconds
            for text, record in records
            if text is not None and record is not None and record.seconds
        ]

    @cached_property
    def _corpus(self) -> _Size:
        lines = src_bytes = tgt_bytes = 0
        for src, tgt in open_text(self._plan.distillation.student, "train").pairs():
            lines += 1
            src_bytes += len(src.encode()) + 1
            tgt_bytes += len(tgt.encode()) + 1
        return _Size(lines, src_bytes, tgt_bytes)

    def _measure(self, text: Path) -> _Size:
        if text == self._directory.text("train", "src"):
            return self._corpus
        if text == self._directory.text("train", "tgt"):
            return _Size(self._corpus.lines, self._corpus.tgt, self._corpus.src)
        lengths = [len(line.encode()) + 1 for line in stream_lines(text)]
        return _Size(len(lengths), sum(lengths), 0)
