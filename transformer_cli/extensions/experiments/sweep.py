"""The jobs of a sweep: some prepare the data that runs share, the others train the runs.

A job's name is the path of its output relative to the sweep's directory.
"""

import os
import shutil
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from transformer_cli.base.errors import ConfigError, RunError, TransformerCliError
from transformer_cli.base.messages import duration
from transformer_cli.base.writing import remove_leftovers, whole_directory
from transformer_cli.config.choices import METRICS
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.best_checkpoint import metric_for_best
from transformer_cli.extensions.experiments.job import (
    TRAINED_ON,
    Job,
    JobDirectory,
    describe_training,
    is_trained,
    sum_texts,
)
from transformer_cli.extensions.experiments.sweep_file import BASE_POINT, SEED, Point, Sweep
from transformer_cli.extensions.report.charts import number, validations
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import MARK, RunDirectory
from transformer_cli.runs.metrics_log import read_records

_SHARED = ("tokenizer", "encoded", "corpus")


class SweepRecord(BaseModel):
    """The keys of sweep.json that list a sweep's runs, so that ``compare`` needs no YAML file."""

    model_config = ConfigDict(strict=True)

    points: list[Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]]  # names of directories
    seeds: list[NonNegativeInt]
    reference: str


class SweepDirectory(JobDirectory):
    """The directory with a sweep's runs and the records of its jobs."""

    kind: ClassVar[str] = "sweep"
    option: ClassVar[str] = "--sweep-dir"
    beforehand: ClassVar[tuple[str, ...]] = ("runs",)  # other machines may have trained runs

    def point(self, name: str) -> Path:
        return self.path / "runs" / name

    def run(self, point: str, seed: int) -> RunDirectory:
        return RunDirectory(self.point(point) / f"seed-{seed}")

    def find_finished(self) -> dict[str, list[RunDirectory]]:
        """Return the finished runs, keyed by the point's name; the reference point comes first."""
        try:
            record = SweepRecord.model_validate(self.read_mark())
        except ValidationError as error:
            problem = "damaged, or not from a sweep; run the sweep's command again"
            raise RunError(f"{self.mark}: {problem}") from error
        found: dict[str, list[RunDirectory]] = {}
        for point in sorted(record.points, key=lambda point: point != record.reference):
            runs = [self.run(point, seed) for seed in record.seeds]
            there = [run for run in runs if run.config.is_file()]
            if finished := [run for run in there if is_trained(run, run.load_config())]:
                found[point] = finished
        return found


@dataclass(frozen=True)
class Run:
    """The training of one point of the sweep, i.e. one variation of its config, with one seed."""

    point: Point
    job: Job
    data: Job  # prepares the data that the training needs
    directory: RunDirectory
    config: Config


@dataclass
class SweepPlan:
    """Plans the jobs of a sweep, and describes its progress."""

    sweep: Sweep
    directory: SweepDirectory
    options: Sequence[str] = ()  # for each training
    data_options: Sequence[str] = ()  # for each training and for commands that prepare data
    _sums: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def runs(self) -> list[Run]:
        """All runs, ordered by seed, so that halfway through a sweep, every point has some runs."""
        return [self._run(point, seed) for seed in self.sweep.seeds for point in self.sweep.points]

    @cached_property
    def metric(self) -> str:
        """The metric that ranks runs, which is the one used to choose their best checkpoints."""
        metrics = {metric_for_best(self.sweep.config_of(point)) for point in self.sweep.points}
        if metrics == {"bleu", "bleu_lc"}:
            return "bleu_lc"  # cased BLEU would be unfair to lowercased output
        if len(metrics) == 1:
            return metrics.pop()
        return metric_for_best(self.sweep.config_of(Point(BASE_POINT)))

    def jobs(self) -> list[Job]:
        """Return the jobs that are left; data is prepared only for unfinished runs."""
        left = [run for run in self.runs if not self.directory.seems_done(run.job)]
        data = {run.data.name: run.data for run in left}
        return [*data.values(), *(run.job for run in left)]

    def _run(self, point: Point, seed: int) -> Run:
        config = self.sweep.config_of(point).model_copy(update={SEED: seed})
        run, data = self.directory.run(point.name, seed), self._data_job(point, config)
        varied = ("train", str(self.sweep.base), *point.options, *self.data_options)
        job = Job(
            run.path.relative_to(self.directory.path).as_posix(),
            command=(*varied, "--set", f"seed={seed}", "--run-dir", str(run.path), *self.options),
            needs=(data.name,),
            prepare=partial(share_data, self.directory.path / data.name, run.path),
            config=config,
            run=run,
        )
        return Run(point, job, data, run, config)

    def _data_job(self, point: Point, config: Config) -> Job:
        """Return the job that prepares data for all points with the same data as ``config``."""
        key = config.fingerprint(include={"data", "tokenizer", "init"})
        name = f"data/{key[:12]}"
        run = RunDirectory(self.directory.path / name)
        varied = (str(self.sweep.base), *point.options, *self.data_options)

        def inputs() -> dict[str, str]:
            return {**describe_training(config), **self._sum_texts(config), "settings": key}

        return Job(
            name,
            inputs,
            lambda: sorted(path for path in run.tokenizer.iterdir() if path.is_file()),
            command=("vocab", *varied, "--run-dir", str(run.path)),
        )

    def _sum_texts(self, config: Config) -> dict[str, str]:
        """Return the SHA-256 of each split's text, which is read only once for all runs."""
        key = config.data.model_dump_json()
        if key not in self._sums:
            self._sums[key] = sum_texts(config, TRAINED_ON)
        return self._sums[key]

    def check_trained_alike(self) -> None:
        """Raise ConfigError if a run's settings or text have changed since its training began."""
        for run in self.runs:
            if not list_checkpoints(run.directory.checkpoints):
                continue
            if differing := differences(run.directory.load_config(), run.config):
                listed = "; ".join(map(str, differing))
                raise ConfigError(
                    f"{run.directory.path}: trained with other settings ({listed}); sweep into "
                    "another directory with --sweep-dir, or delete this run to train it again"
                )
            if changed := self._find_changed(run.data):
                raise ConfigError(
                    f"{self.directory.path}: {changed} has changed since the sweep began; sweep "
                    "into another directory with --sweep-dir"
                )

    def _find_changed(self, job: Job) -> str | None:
        """Return the name of an input that differs from its value in the job's record, or None."""
        known = self.directory.read(job.name)
        with suppress(TransformerCliError, OSError):  # ignore inputs that no longer exist
            now = job.inputs()
            made_of = {} if known is None else known.made_of
            return next((name for name in now if made_of.get(name, now[name]) != now[name]), None)
        return None

    def describe_rest(self, jobs: int) -> str:
        """Describe how many runs have finished, and the time left with ``jobs`` runs at a time."""
        done = [run for run in self.runs if self.directory.seems_done(run.job)]
        text = f"{len(done)} of {len(self.runs)} runs"
        seconds = [_read_seconds(run.directory) for run in done]
        left = (len(self.runs) - len(done)) / jobs
        return f"{text}, {duration(statistics.fmean(seconds) * left)} left" if left else text

    @property
    def record(self) -> dict[str, object]:
        """The content of sweep.json; the reference is the point equal to the base, or the first."""
        base = self.sweep.config_of(Point(BASE_POINT))
        points = self.sweep.points
        same = [point for point in points if self.sweep.config_of(point) == base]
        return {
            "points": [point.name for point in points],
            "seeds": list(self.sweep.seeds),
            "reference": (same or points)[0].name,
        }


def find_best(run: RunDirectory, metric: str) -> float | None:
    """Return a run's best validation score in ``metric``, or None if it was not validated."""
    records = validations(read_records(run.metrics))
    scores = [score for record in records if (score := record[metric]) is not None]
    return max(scores, key=METRICS[metric].rank, default=None)


def _read_seconds(run: RunDirectory) -> float:
    """Return the seconds that a run has been trained for, as recorded in metrics.jsonl."""
    return max((number(each, "seconds") or 0.0 for each in read_records(run.metrics)), default=0.0)


def share_data(data: Path, run: Path) -> None:
    """Create a run directory with prepared data, as hard links if the file system has them."""
    if run.is_dir():
        return
    run.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run.parent)
    with whole_directory(run) as new:
        shutil.copyfile(data / MARK, new / MARK)  # it marks the directory as a run
        for name in _SHARED:
            if (data / name).is_dir():
                shutil.copytree(data / name, new / name, copy_function=link_or_copy)


def link_or_copy(source: str, target: str) -> None:
    """Give a file another name, or copy it if the disk does not support that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
