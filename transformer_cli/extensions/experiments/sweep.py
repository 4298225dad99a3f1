"""The jobs of a sweep: prepare the data that runs share, train the runs, and score them.

A job's name is the path of what it makes, in the sweep's directory.
"""

import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal

from transformer_cli.base.artifact import write_record
from transformer_cli.base.errors import ConfigError, TransformerCliError, duration
from transformer_cli.base.writing import remove_leftovers, whole_directory
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.evaluation.best_checkpoint import bleu_of, metric_for_best
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.experiments.job import (
    TRAINED_ON,
    Job,
    JobDirectory,
    describe_model,
    describe_training,
    sum_texts,
)
from transformer_cli.extensions.experiments.results import (
    PLAN,
    SCORES,
    TRANSLATIONS,
    GroupResult,
    RunResult,
    SweepRecord,
    best_group,
    read_run_state,
    run_name,
    scores_name,
)
from transformer_cli.extensions.experiments.runner import Computing, Plan
from transformer_cli.extensions.experiments.search import Search
from transformer_cli.extensions.experiments.sweep_file import BASE_POINT, SEED, Point, Sweep
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import MARK, RunDirectory

_SHARED = ("tokenizer", "encoded", "corpus")


class SweepDirectory(JobDirectory):
    """The directory of a sweep."""

    kind: ClassVar[str] = "sweep"
    noun: ClassVar[str] = "sweep"
    option: ClassVar[str] = "--sweep-dir"

    def run(self, point: str, seed: int) -> RunDirectory:
        return RunDirectory(self.path / run_name(point, seed))

    def count_ended(self) -> int:
        runs = (run.relative_to(self.path) for run in self.path.glob(run_name("*", "*")))
        states = [read_run_state(self.path, run.as_posix()) for run in runs]
        return sum(state not in (None, "begun") for state in states)


@dataclass(frozen=True)
class Run:
    """The training of a point with a seed."""

    point: Point
    seed: int
    config: Config
    directory: RunDirectory
    job: Job
    data: Job  # prepares the data that the training needs


@dataclass
class SweepPlan(Plan):
    """The jobs of a sweep, depending on how those that have begun went."""

    sweep: Sweep
    directory: SweepDirectory
    computing: Computing
    num_jobs: int = 1  # how many run at a time; a search's budget is divided among them
    _runs: dict[str, Run] = field(default_factory=dict)
    _finished: dict[str, RunResult] = field(default_factory=dict)
    _sums: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def search(self) -> Search | None:
        """What draws points, opened in the directory, or begun there; None: all are known."""
        if self.sweep.space is None:
            return None
        return Search(self.sweep, self.sweep.space, self.metric, self.directory.path)

    @property
    def points(self) -> list[Point]:
        return self.sweep.points if self.search is None else self.search.points

    @property
    def is_complete(self) -> bool:
        """Whether no point will be added."""
        return self.search is None or self.search.is_over

    @property
    def seeds(self) -> range:
        return range(1, self.sweep.settings.num_seeds + 1)

    @property
    def num_runs(self) -> int:
        """The largest number of runs that there will be."""
        return len(self.seeds) * (len(self.points) if self.is_complete else self.sweep.num_points)

    @cached_property
    def metric(self) -> str:
        """The metric that ranks points by their validations.

        If a point lowercases its translations, this is lowercased BLEU instead of BLEU.
        """
        base = self.sweep.config_of(Point(BASE_POINT))
        wanted = self.sweep.settings.metric or metric_for_best(base)
        bleus = {bleu_of(self.sweep.config_of(each)) for each in self.sweep.samples}
        return "bleu_lc" if wanted == "bleu" and "bleu_lc" in bleus else wanted

    def jobs(self) -> Iterator[Job]:
        """Yield the trainings that are left, or if there are none, the runs to score."""
        if self.search is not None:
            self._settle_points(self.search)
        is_training = False
        for run in self.runs():
            is_ended = run.job.name in self.directory.failed or self.directory.seems_done(run.job)
            is_open = self.search is None or self.search.state(run.point) == "running"
            if is_open and not is_ended:
                is_training = True
                yield run.data
                yield run.job
        # Runs are scored after all trainings, so that no decision depends on the test splits.
        if not is_training and self.is_complete:
            for split in self.sweep.settings.evaluate:
                done = (run for run in self.runs() if self.directory.seems_done(run.job))
                yield from (self._score_job(run, split) for run in done)

    def runs(self) -> list[Run]:
        """Return all runs so far, by seed: after half of a sweep, every point has some runs."""
        return [self._run(point, seed) for seed in self.seeds for point in self.points]

    def _run(self, point: Point, seed: int) -> Run:
        name = run_name(point.name, seed)
        if name not in self._runs:
            config = self.sweep.config_of(point).model_copy(update={SEED: seed})
            directory = self.directory.run(point.name, seed)
            data = self._data_job(point, config)
            computing = self.computing
            varied = (str(self.sweep.base), *point.options, *computing.suspect_options)
            train = ("train", *varied, "--set", f"seed={seed}", "--run-dir", str(directory.path))
            job = Job(
                name,
                partial(describe_training, config),
                lambda: [directory.metrics],
                command=(*train, *computing.training_options),
                needs=(data.name,),
                prepare=partial(share_data, self.directory.path / data.name, directory.path),
                config=config,
                run=directory,
            )
            self._runs[name] = Run(point, seed, config, directory, job, data)
        return self._runs[name]

    def _data_job(self, point: Point, config: Config) -> Job:
        """Return the job that prepares data for a point, and for others with the same settings."""
        key = config.fingerprint(include={"data", "tokenizer", "init"})
        name = f"data/{key[:12]}"
        run = RunDirectory(self.directory.path / name)
        varied = (str(self.sweep.base), *point.options, *self.computing.suspect_options)
        return Job(
            name,
            lambda: {"settings": key, **self._sum_texts(config, TRAINED_ON)},
            lambda: sorted(path for path in run.tokenizer.iterdir() if path.is_file()),
            command=("vocab", *varied, "--run-dir", str(run.path)),
        )

    def _score_job(self, run: Run, split: str) -> Job:
        name = scores_name(split, run.point.name, run.seed)
        directory = self.directory.path / name
        translations, scores = directory / TRANSLATIONS, directory / SCORES
        evaluate = ("evaluate", str(run.directory.path), "--split", split, "--json")

        def inputs() -> dict[str, str]:
            # A run has its own copy of a corpus of sources.
            own = isinstance(run.config.data, CorpusData)
            sums = {} if own else self._sum_texts(run.config, [split])
            return {"model": describe_model(run.directory), **sums}

        return Job(
            name,
            inputs,
            lambda: [translations, scores],
            command=(*evaluate, "--output", str(translations), *self.computing.options),
            needs=(run.job.name,),
            stdout=scores,
            prepare=partial(directory.mkdir, parents=True, exist_ok=True),
        )

    def _sum_texts(self, config: Config, splits: Sequence[str]) -> dict[str, str]:
        """Return the SHA-256 of each split's text, read only once for all runs."""
        key = f"{config.data.model_dump_json()} {splits}"
        if key not in self._sums:
            self._sums[key] = sum_texts(config, splits)
        return self._sums[key]

    def check_trained_alike(self) -> None:
        """Check that runs have their points' settings, and that their text has not changed."""
        for run in self.runs():
            if not list_checkpoints(run.directory.checkpoints):
                continue
            if differing := differences(run.directory.load_config(), run.config):
                listed = "; ".join(map(str, differing))
                raise ConfigError(
                    f"{run.directory.path}: trained with other settings ({listed}); sweep into "
                    "another directory with --sweep-dir, or delete this run to train it again"
                )
            if changed := self._find_changed(run.data) or self._find_changed(run.job):
                raise ConfigError(
                    f"{self.directory.path}: {changed} has changed since the sweep began; sweep "
                    "into another directory with --sweep-dir"
                )

    def _find_changed(self, job: Job) -> str | None:
        """Return an input of a job that is not what the job has recorded; None: all are."""
        known = self.directory.read(job.name)
        with suppress(TransformerCliError, OSError):  # nothing can be said of what is gone
            now = job.inputs()
            made_of = {} if known is None else known.made_of
            return next((name for name in now if made_of.get(name, now[name]) != now[name]), None)
        return None

    def extend(self) -> bool:
        """Add a point if this is an unfinished search; return whether there are more jobs."""
        if self.search is None or self.search.is_over:
            return False
        budget = self.sweep.settings.budget_seconds
        if budget is not None:
            spent = sum(self._read_result(run).seconds or 0.0 for run in self.runs())
            self.search.is_over = spent / self.num_jobs > budget
        if self.search.extend():
            self.record()
        # When a search has just ended, its runs can be scored.
        return True

    def give_up(self, job: Job) -> Literal["pruned", "stopped"] | None:
        run = self._runs.get(job.name)
        search = self.search
        if run is None or search is None:
            return None
        point = run.point
        if search.state(point) != "running":
            return "stopped"
        if self.sweep.settings.prune == "none" or run.seed != self.seeds[0]:
            return None
        search.study.report(point.number, self._read_result(run).scores)
        if not search.study.should_prune(point.number):
            return None
        self.directory.end(job, "pruned")
        search.end(point, "pruned")
        return "pruned"

    def _settle_points(self, search: Search) -> None:
        """End the trials whose runs are all done, and those with a run that has failed."""
        for point in search.points:
            if search.state(point) != "running":
                continue
            runs = [self._run(point, seed) for seed in self.seeds]
            failed = [run.job.name for run in runs if run.job.name in self.directory.failed]
            if failed:
                search.end(point, "fail", why=self.directory.failed[failed[0]])
            elif all(self.directory.seems_done(run.job) for run in runs):
                results = [self._read_result(run) for run in runs]
                # Later points are compared with the first seed's validations.
                search.study.report(point.number, results[0].scores)
                scores = [result.score for result in results if result.score is not None]
                search.end(point, "complete", scores)

    def _read_result(self, run: Run) -> RunResult:
        name = run.job.name
        if name not in self._finished:
            result = RunResult.read(run.directory, self.metric)
            if name not in self.directory.done:
                return result
            self._finished[name] = result
        return self._finished[name]

    def read_status(self) -> list[GroupResult]:
        """Return how each point is doing, in their order."""
        status = []
        for point in self.points:
            runs = [self._run(point, seed) for seed in self.seeds]
            results = [self._read_result(run) for run in runs if self.directory.seems_done(run.job)]
            ended = [(run, "failed") for run in runs if run.job.name in self.directory.failed]
            if self.search is not None and self.search.state(point) == "pruned":
                ended = [(runs[0], "pruned")]
            results += [RunResult(run.directory, self.metric, [], None, why) for run, why in ended]
            status.append(GroupResult(point.label or point.name, results))
        return status

    def describe_rest(self) -> str:
        """Return the number of finished runs, the best point, and the time left."""
        points = self.read_status()
        text = f"{sum(len(point.finished) for point in points)} of {self.num_runs} runs"
        if (best := best_group(points, self.metric)) is not None:
            text += f", best so far {best.name} {best.mean:.2f}"
        others = sum(point.unfinished.total() for point in points)
        seconds = [result.seconds or 0.0 for result in self._finished.values()]
        left = max(0, self.num_runs - len(seconds) - others) / self.num_jobs
        if not seconds or not left:
            return text
        return f"{text}, {duration(statistics.fmean(seconds) * left)} left"

    @property
    def reference(self) -> str:
        """The point that others are compared with: that with the base's settings, or the first."""
        seed = self.seeds[0]
        base = self.sweep.config_of(Point(BASE_POINT)).model_copy(update={SEED: seed})
        same = [point for point in self.points if self._run(point, seed).config == base]
        return (same or self.points or [Point(BASE_POINT)])[0].name

    def record(self) -> None:
        """Record the plan, for commands that read the directory without the sweep's file."""
        plan = {
            "points": [point.name for point in self.points],
            "seeds": list(self.seeds),
            "reference": self.reference,
            "metric": self.metric,
            "evaluate": self.sweep.settings.evaluate,
        }
        write_record(self.directory.path / PLAN, SweepRecord.model_validate(plan))


def share_data(data: Path, run: Path) -> None:
    """Give a new run the prepared data, as hard links if the file system has them."""
    if run.is_dir():
        return
    run.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run.parent)
    with whole_directory(run) as new:
        shutil.copyfile(data / MARK, new / MARK)  # it marks the directory as a run
        for name in _SHARED:
            if (data / name).is_dir():
                shutil.copytree(data / name, new / name, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
