"""Forecast the time, disk and memory of jobs, in a temporary directory."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, RunError, UsageError
from transformer_cli.base.files import read_small
from transformer_cli.config.schema import Config
from transformer_cli.data.kinds import open_kind
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.experiments.child import ERROR, Command, run_command
from transformer_cli.extensions.experiments.distill import SIDES, STUDENT_JOB, TEXT_JOB, DistillPlan
from transformer_cli.extensions.experiments.job import Job, open_text
from transformer_cli.runs.checkpoint import list_checkpoints, newest_step
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.lines import stream_lines
from transformer_cli.training.optimizer import last_step

_RUN_DIR = "--run-dir"


class JobForecast(NamedTuple):
    """The expected cost of a job."""

    seconds: float | None = 0.0
    """On an idle machine, with validations; 0: next to nothing; None: unknown, or a training step
    does not fit into memory or is not finite."""
    disk: int = 0  # bytes of its outputs; of a training, of its checkpoints
    memory: int | None = None  # bytes that a training needs at least; None if ``seconds`` is None
    lines: int | None = None  # lines to translate
    start: float = 0.0  # seconds that a process needs until it trains or scores
    pair_seconds: float = 0.0  # to evaluate a pair with the trained model

    def time_scoring(self, pairs: int) -> float:
        return self.start + self.pair_seconds * pairs if pairs else 0.0


@dataclass
class Forecaster:
    """Tries each training by a dry run of its command, and similar trainings only once.

    Each runs in its own process, so that none sees memory that an earlier one has used.
    """

    directory: Path  # a temporary one
    trainings: Sequence[Job]  # all that will be forecast
    log: Callable[[str], object]  # gets the messages of the commands, each once
    _said: set[str] = field(default_factory=set)
    _tried: dict[str, dict[str, Any]] = field(default_factory=dict)
    _prepared: dict[str, Path] = field(default_factory=dict)
    _pairs: dict[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise a UsageError where dry runs of trainings forecast nothing."""
        if registry.find("preview", "forecast") is None:
            raise UsageError(registry.describe_missing("preview of a training", "forecast"))

    def forecast(self, training: Job, growth: float = 1.0) -> JobForecast:
        """Return the cost of the rest of a training on ``growth`` times the text of its trial."""
        config, run = training.config, training.run
        assert config is not None
        assert run is not None
        settings = _describe_step(config)
        if settings not in self._tried:
            path = run.path if run.config.is_file() else self.prepare(training)
            # The last of two --run-dir counts.
            said = self._run([*training.command, _RUN_DIR, str(path), "--dry-run", "--json"])
            tried = json.loads(said)
            if tried["steps_done"] >= tried["steps"]:  # it is finished, so no step was tried
                return _describe(0.0, tried)
            self._tried[settings] = tried
        tried = self._tried[settings]
        steps = last_step(config.training, round(tried["steps_per_epoch"] * growth))
        left = max(0, steps - newest_step(run.checkpoints))
        seconds = None
        if not left:
            seconds = 0.0
        elif tried["seconds"] is not None:  # of the steps that are left in that run
            seconds = tried["seconds"] / max(1, tried["steps"] - tried["steps_done"]) * left
            seconds += tried["start_seconds"]
        return _describe(seconds, tried)

    def count_pairs(self, training: Job, splits: Sequence[str]) -> int:
        """Return the number of pairs of splits; val stands for those that must be fetched."""
        config = training.config
        assert config is not None
        key = (_describe_data(config), *splits)
        if key not in self._pairs:
            corpus = self.find_corpus(training)
            kind = open_kind(config.data)
            here = (split if kind.is_here(split, None) else "val" for split in splits)
            texts = (open_text(config, split, corpus) for split in here)
            self._pairs[key] = sum(1 for text in texts for _ in text.pairs())
        return self._pairs[key]

    def find_corpus(self, training: Job) -> Path | None:
        """Return where a training's corpus is prepared, as it is now; None: it needs none."""
        config, run = training.config, training.run
        assert config is not None
        assert run is not None
        if not isinstance(config.data, CorpusData):
            return None
        return (run if run.config.is_file() else RunDirectory(self.prepare(training))).corpus

    def prepare(self, training: Job) -> Path:
        """Return a run directory, in which data is prepared if several trainings share it.

        A corpus is always prepared there, so that it is done only once.
        """
        command, config = training.command, training.config
        assert config is not None
        key = _describe_data(config)
        if key not in self._prepared:
            run = self.directory / f"run-{len(self._prepared)}"
            configs = [training.config for training in self.trainings if training.config]
            sharing = {_describe_step(each) for each in configs if _describe_data(each) == key}
            if len(sharing) > 1 or isinstance(config.data, CorpusData):
                settings = command[1 : command.index(_RUN_DIR)]
                self._run(["vocab", *settings, _RUN_DIR, str(run)])
            self._prepared[key] = run
        return self._prepared[key]

    def _run(self, command: Sequence[str]) -> bytes:
        """Run a command; return its output."""
        names = ("stop", "owner", "out", "log")
        stop, owner, stdout, log = (self.directory / name for name in names)
        log.unlink(missing_ok=True)
        ended = run_command(Command(command, Path.cwd(), stop, owner, stdout, log))
        for line in read_small(log).decode(errors="replace").splitlines():
            if line and line not in self._said and not line.startswith(ERROR):
                self._said.add(line)
                self.log(line)
        if ended.code:
            raise (ConfigError if ended.code == 2 else RunError)(ended.message)
        return read_small(stdout)


def _describe(seconds: float | None, tried: Mapping[str, Any]) -> JobForecast:
    scoring = {"start": tried["start_seconds"], "pair_seconds": tried["pair_seconds"]}
    return JobForecast(seconds, tried["disk"], tried["memory"], **scoring)


def _describe_step(config: Config) -> str:
    """Return what a step's time depends on: all settings but seed and length of training."""
    length = {"epochs", "max_steps", "patience"}
    return config.model_dump_json(exclude={"seed": True, "training": length})


def _describe_data(config: Config) -> str:
    return config.model_dump_json(include={"data", "tokenizer", "init"})


# --- distillations --------------------------------------------------------------------------------


def forecast_distillation(
    plan: DistillPlan, temporary: Path, log: Callable[[str], object]
) -> dict[str, JobForecast | None]:
    """Return the forecast of each job of a distillation by its name; None: it is done."""
    jobs = list(plan.jobs())
    undone: dict[str, Job] = {}
    for job in jobs:
        is_behind = any(need in undone for need in job.needs)
        if is_behind or not plan.directory.seems_done(job):
            undone[job.name] = job
    trainings = {name: _make_training(plan, job) for name, job in undone.items() if job.config}
    forecaster = Forecaster(temporary, [*trainings.values()], log)
    lines: dict[Path, int] = {}  # of the texts to translate
    sides = [plan.directory.text("train", side) for side in SIDES]
    if TEXT_JOB in undone:
        student = plan.distillation.student
        corpus = forecaster.find_corpus(trainings[STUDENT_JOB])
        lines |= dict.fromkeys(sides, sum(1 for _ in open_text(student, "train", corpus).pairs()))
    for text in [*sides, *(job.text for job in jobs if job.text is not None)]:
        if text not in lines:
            lines[text] = sum(1 for _ in stream_lines(text))
    forecasts: dict[str, JobForecast | None] = dict.fromkeys(job.name for job in jobs)
    for name, job in undone.items():
        if name not in trainings:
            seconds = None if job.command or job.needs else 0.0
            forecasts[name] = JobForecast(seconds, lines=lines[job.text] if job.text else None)
            continue
        growth = 1.0
        if name == STUDENT_JOB:  # it trains on all its text, and its trial on the corpus alone
            kept = lines[sides[0]] if plan.distillation.settings.keep_reference else 0
            written = sum(lines[job.text] for job in jobs if job.text is not None)
            growth = (kept + written) / lines[sides[0]]
        found = forecaster.forecast(trainings[name], growth)
        # A teacher may be complete although this distillation has no record of it.
        forecasts[name] = None if found.seconds == 0.0 else found
    return forecasts


def _make_training(plan: DistillPlan, job: Job) -> Job:
    """Return a job's training; the student's is a new one, as its text does not exist yet."""
    command, config, run = [*job.command], job.config, job.run
    assert config is not None
    if job.name == STUDENT_JOB:
        command[1] = str(plan.distillation.student_file)
        run = RunDirectory(plan.directory.path / "student-to-be")
    if config.init is not None and not list_checkpoints(RunDirectory(config.init).checkpoints):
        config = config.model_copy(update={"init": None})
        # The last two settings need init.
        for without in ("init=null", "training.init_share=null", "training.freeze=[]"):
            command += ["--set", without]
    return replace(job, command=command, config=config, run=run)
