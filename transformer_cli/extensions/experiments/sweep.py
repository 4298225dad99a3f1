"""The jobs of a sweep: prepare data that runs share, train the runs, score them.

A job is named by the path of what it makes in the sweep's directory.
"""

import json
import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from transformer_cli.base.compression import write_text
from transformer_cli.base.errors import ConfigError, RunError, TransformerCliError, duration
from transformer_cli.base.files import sha256
from transformer_cli.base.metrics import METRICS
from transformer_cli.base.writing import remove_leftovers, whole_directory
from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.data.sources import is_on_disk
from transformer_cli.evaluation.best_checkpoint import bleu_of, metric_for_best
from transformer_cli.extensions.corpora.preparing import has_changed
from transformer_cli.extensions.corpora.settings import CorpusData, added_sources
from transformer_cli.extensions.experiments.groups import read_run_state, read_sweep_plan, run_name
from transformer_cli.extensions.experiments.job import (
    TRAINED_ON,
    Job,
    JobDirectory,
    describe_model,
    describe_training,
    sum_texts,
    weights_record,
)
from transformer_cli.extensions.experiments.runner import Plan
from transformer_cli.extensions.experiments.search import Grid, Search
from transformer_cli.extensions.experiments.sweep_file import BASE_POINT, SEED, Point, Sweep
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import MARK, SWEEP_PLAN, RunDirectory
from transformer_cli.runs.metrics_log import number, read_records, validations

TRANSLATIONS, SCORES = "translations.txt", "scores.json"  # the files of a scored run
_SHARED = ("tokenizer", "encoded", "corpus")


class SweepDirectory(JobDirectory):
    """The directory of a sweep."""

    kind: ClassVar[str] = "sweep"
    noun: ClassVar[str] = "sweep"
    option: ClassVar[str] = "--sweep-dir"

    @property
    def report(self) -> Path:
        """Path of the page about all runs."""
        return self.path / "report.html"

    def run(self, point: str, seed: int) -> RunDirectory:
        """Return the directory of a run."""
        return RunDirectory(self.path / run_name(point, seed))


def scores_name(split: str, point: str, seed: int) -> str:
    """Return the name of the job that scores a run on a split, which is the path of its files."""
    return f"scores/{split}/{point}/seed-{seed}"


class Progress(NamedTuple):
    """What a run has reached, whether it is finished or not."""

    scores: list[float]  # the metric at each validation, in their order
    best: float | None  # None: it was not validated
    loss: float | None  # the lowest validation loss
    seconds: float  # time of its training


@dataclass(frozen=True)
class PointStatus:
    """What has become of a point."""

    name: str  # with its settings, if the name alone does not tell them
    scores: list[float | None]  # of its finished runs; None: it was not validated
    num_failed: int = 0
    is_pruned: bool = False
    losses: list[float | None] = field(default_factory=list)  # lowest validation losses, likewise

    @property
    def loss(self) -> float | None:
        """The mean loss over seeds; None: no run was validated yet."""
        losses = [loss for loss in self.losses if loss is not None]
        return statistics.fmean(losses) if losses else None

    @property
    def mean(self) -> float | None:
        """The mean score over seeds; None: no run was validated yet."""
        scores = [score for score in self.scores if score is not None]
        return statistics.fmean(scores) if scores else None

    def count_runs(self) -> str:
        """Return the number of finished runs, and what has become of others."""
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{len(self.scores)}{', pruned' if self.is_pruned else ''}{failed}"

    def format_score(self) -> str:
        """Return the mean score, with the sample standard deviation of two and more."""
        if self.mean is None:
            return "-"
        scores = [score for score in self.scores if score is not None]
        deviation = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
        return f"{self.mean:.2f}{deviation}"


def best_point(points: Sequence[PointStatus], metric: str) -> PointStatus | None:
    """Return the point with the best mean of a metric, of equal ones that with the lowest loss.

    None: no run was validated yet, or all score about 0.
    """
    scored = [(point.mean, point) for point in points if point.mean is not None]
    if not scored or METRICS[metric].says_nothing(mean for mean, _ in scored):
        return None
    return max(scored, key=lambda pair: METRICS[metric].rank_with_loss(pair[0], pair[1].loss))[1]


def are_all_low(points: Sequence[PointStatus], metric: str) -> bool:
    """Return whether all points that have a score have one of about 0."""
    return METRICS[metric].says_nothing(point.mean for point in points if point.mean is not None)


@dataclass(frozen=True)
class Run:
    """The training of a point with a seed."""

    point: Point
    seed: int
    config: Config
    directory: RunDirectory
    job: Job
    data: Job  # what makes the data that its training needs


@dataclass
class SweepPlan(Plan):
    """The jobs of a sweep, given what has become of those that were begun."""

    sweep: Sweep
    directory: SweepDirectory
    options: Sequence[str]
    """Of ``train`` and ``evaluate``: device, precision, threads."""
    num_jobs: int = 1  # how many run at a time, among which a search's budget is divided
    training: Sequence[str] = ()
    """The same of trainings, of which all have one precision; none: as the others."""
    suspect: Sequence[str] = ()  # the option by which suspect text is trained on
    _runs: dict[str, Run] = field(default_factory=dict)
    _finished: dict[str, Progress] = field(default_factory=dict)
    _sums: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def trials(self) -> Grid:
        """The source of points; a search is begun in the directory, or opened."""
        if self.sweep.space is None:
            return Grid(self.sweep.points)
        return Search(self.sweep, self.sweep.space, self.metric, self.directory.path)

    @property
    def seeds(self) -> range:
        """The seeds that each point is trained with."""
        return range(1, self.sweep.settings.num_seeds + 1)

    @property
    def num_runs(self) -> int:
        """Number of runs that there will be, at most."""
        is_known = self.trials.is_over
        return len(self.seeds) * (len(self.trials.points) if is_known else self.sweep.num_points)

    @cached_property
    def metric(self) -> str:
        """The metric of validations that points are judged by.

        Of BLEU, only the lowercased one counts where a point's translations are lowercased.
        """
        base = self.sweep.config_of(Point(BASE_POINT))
        wanted = self.sweep.settings.metric or metric_for_best(base)
        bleus = {bleu_of(self.sweep.config_of(each)) for each in self.sweep.samples}
        return "bleu_lc" if wanted == "bleu" and "bleu_lc" in bleus else wanted

    def jobs(self) -> Iterator[Job]:
        """Yield what is to be trained, or once nothing is, what is to be scored."""
        if isinstance(self.trials, Search):
            self._settle_points(self.trials)
        is_training = False
        for run in self.runs():
            is_ended = run.job.name in self.directory.failed or self.directory.seems_done(run.job)
            if self.trials.state(run.point) == "running" and not is_ended:
                is_training = True
                yield run.data
                yield run.job
        # Once all are trained, so that no decision can depend on the test splits.
        if not is_training and self.trials.is_over:
            for split in self.sweep.settings.evaluate:
                done = (run for run in self.runs() if self.directory.seems_done(run.job))
                yield from (self._score_job(run, split) for run in done)

    def runs(self) -> list[Run]:
        """Return all runs so far, every point's first seed first: half a sweep has all points."""
        points = self.trials.points
        return [self._run(point, seed) for seed in self.seeds for point in points]

    def _run(self, point: Point, seed: int) -> Run:
        name = run_name(point.name, seed)
        if name not in self._runs:
            config = self.sweep.config_of(point).model_copy(update={SEED: seed})
            directory = self.directory.run(point.name, seed)
            data = self._data_job(point, config)
            varied = (str(self.sweep.base), *point.options, *self.suspect)
            train = ("train", *varied, "--set", f"seed={seed}")
            options = self.training or self.options
            job = Job(
                name,
                partial(describe_training, config),
                lambda: [directory.metrics],
                command=(*train, "--run-dir", str(directory.path), *options),
                needs=(data.name,),
                prepare=partial(share_data, self.directory.path / data.name, directory.path),
                config=config,
                run=directory,
            )
            self._runs[name] = Run(point, seed, config, directory, job, data)
        return self._runs[name]

    def _data_job(self, point: Point, config: Config) -> Job:
        """Return the job that prepares the data of a point, and of all with the same settings."""
        key = config.fingerprint(include={"data", "tokenizer", "init"})
        name = f"data/{key[:12]}"
        run = RunDirectory(self.directory.path / name)
        vocab = ("vocab", str(self.sweep.base), *point.options, *self.suspect)
        return Job(
            name,
            lambda: {"settings": key},
            lambda: sorted(path for path in run.tokenizer.iterdir() if path.is_file()),
            command=(*vocab, "--run-dir", str(run.path)),
        )

    def _score_job(self, run: Run, split: str) -> Job:
        name = scores_name(split, run.point.name, run.seed)
        directory = self.directory.path / name
        translations, scores = directory / TRANSLATIONS, directory / SCORES
        evaluate = ("evaluate", str(run.directory.path), "--split", split, "--json")
        return Job(
            name,
            lambda: {"model": describe_model(run.directory)},
            lambda: [translations, scores],
            command=(*evaluate, "--output", str(translations), *self.options),
            needs=(run.job.name,),
            stdout=scores,
            prepare=partial(directory.mkdir, parents=True, exist_ok=True),
        )

    def check_trained_alike(self) -> None:
        """Check that runs have their points' settings, and that what made them is as it was."""
        compared: set[str] = set()
        for run in self.runs():
            if not list_checkpoints(run.directory.checkpoints):
                continue
            known, data = self._known_sums.get(run.data.name, {}), run.config.data
            names = [
                n for n, now in self._sum_inputs(run.config).items() if known.get(n, now) != now
            ]
            if isinstance(data, CorpusData) and run.data.name not in compared:
                compared.add(run.data.name)
                names += ["sources"] if has_changed(data, run.directory.corpus) else []
            if names:
                of_split = f"the text of split '{names[0]}'"
                what = {"init": "init", "sources": "the text of data.sources"}
                raise ConfigError(
                    f"{self.directory.path}: {what.get(names[0], of_split)} has changed since the "
                    "sweep began; sweep into another directory with --sweep-dir"
                )
            if changed := differences(run.directory.load_config(), run.config):
                listed = "; ".join(map(str, changed))
                raise ConfigError(
                    f"{run.directory.path}: trained with other settings ({listed}); sweep into "
                    "another directory with --sweep-dir, or delete this run to train it again"
                )

    @cached_property
    def _known_sums(self) -> dict[str, dict[str, str]]:
        """What ``_sum_inputs`` gave when the sweep began, by the data's job."""
        try:
            sums: dict[str, dict[str, str]] = read_sweep_plan(self.directory.path)["made_of"]
        except RunError:  # it has not begun, or it is damaged, and written anew
            return {}
        return sums

    def _sum_inputs(self, config: Config) -> dict[str, str]:
        """Return the SHA-256 of what a run is made of: each split that is at hand, and init."""
        # Of a corpus of sources, a run has a copy.
        data = config.data
        splits = {*TRAINED_ON, *self.sweep.settings.evaluate}
        key = data.model_dump_json()
        if key not in self._sums:
            self._sums[key] = {}
            for split in () if isinstance(data, CorpusData) else sorted(splits):
                with suppress(TransformerCliError, OSError):
                    # What is added to the training text may have to be fetched.
                    more = added_sources(data).values() if split == "train" else ()
                    if is_on_disk(data, split) and all(source.is_local for source in more):
                        self._sums[key] |= sum_texts(config, [split])
        sums = dict(self._sums[key])
        if config.init is not None:
            with suppress(TransformerCliError, OSError):
                sums["init"] = sha256(weights_record(RunDirectory(config.init)))
        return sums

    def extend(self) -> bool:
        """Add a point if this is a search that goes on; return whether there are more jobs."""
        was_over = self.trials.is_over
        budget = self.sweep.settings.budget_seconds
        if budget is not None and not self.trials.is_over:
            spent = sum(self._read_progress(run).seconds for run in self.runs())
            self.trials.is_over = spent / self.num_jobs > budget
        is_added = self.trials.extend()
        if is_added:
            self.record()
        # A search that has just ended leaves its runs to be scored.
        return is_added or self.trials.is_over != was_over

    def give_up(self, job: Job) -> Literal["pruned", "stopped"] | None:
        """Return what becomes of a training that is not worth its time; None: it is."""
        run = self._runs.get(job.name)
        if run is None or not isinstance(self.trials, Search):
            return None
        search, point = self.trials, run.point
        if search.state(point) != "running":
            return "stopped"
        if self.sweep.settings.prune == "none" or run.seed != self.seeds[0]:
            return None
        is_news = search.report(point.number, self._read_progress(run).scores)
        if not is_news or not search.should_prune(point.number):
            return None
        self.directory.end(job, "pruned")
        search.prune(point)
        return "pruned"

    def _settle_points(self, search: Search) -> None:
        """End the trials whose runs are all done, or of which one has failed."""
        for point in search.points:
            if search.state(point) != "running":
                continue
            runs = [self._run(point, seed) for seed in self.seeds]
            failed = [run.job.name for run in runs if run.job.name in self.directory.failed]
            if failed:
                search.fail(point, self.directory.failed[failed[0]])
            elif all(self.directory.seems_done(run.job) for run in runs):
                reached = [self._read_progress(run) for run in runs]
                # By the first seed's validations, later points are pruned.
                search.report(point.number, reached[0].scores)
                scores = [progress.best for progress in reached if progress.best is not None]
                search.complete(point, scores)

    def _read_progress(self, run: Run) -> Progress:
        name = run.job.name
        if name not in self._finished:
            records = read_records(run.directory.metrics)
            validated = validations(records)
            scores, losses = (
                [found for validation in validated if (found := validation[key]) is not None]
                for key in (self.metric, "loss")
            )
            seconds = max((number(record, "seconds") or 0.0 for record in records), default=0.0)
            best = METRICS[self.metric].best(scores)
            progress = Progress(scores, best, min(losses, default=None), seconds)
            if name not in self.directory.done:
                return progress
            self._finished[name] = progress
        return self._finished[name]

    def read_status(self) -> list[PointStatus]:
        """Return what has become of each point, in their order."""
        status = []
        for point in self.trials.points:
            runs = [self._run(point, seed) for seed in self.seeds]
            done = [run for run in runs if self.directory.seems_done(run.job)]
            status.append(
                PointStatus(
                    self.trials.describe(point),
                    [self._read_progress(run).best for run in done],
                    sum(run.job.name in self.directory.failed for run in runs),
                    self.trials.state(point) == "pruned",
                    [self._read_progress(run).loss for run in done],
                )
            )
        return status

    def describe_rest(self) -> str:
        """Return how many runs are done, the best point, and the time that the others take."""
        points = self.read_status()
        done = sum(len(point.scores) for point in points)
        text = f"{done} of {self.num_runs} runs"
        if (best := best_point(points, self.metric)) is not None:
            text += f", best so far {best.name} {best.mean:.2f}"
        others = sum(point.num_failed + point.is_pruned for point in points)
        seconds = [progress.seconds for progress in self._finished.values()]
        left = max(0, self.num_runs - len(seconds) - others) / self.num_jobs
        if not seconds or not left:
            return text
        return f"{text}, {duration(statistics.fmean(seconds) * left)} left"

    def count_runs_left(self) -> dict[str, float]:
        """Return how many runs are left of each point, or of what stands for a search's points."""
        if self.sweep.space is None:
            left = dict.fromkeys((point.name for point in self.trials.points), 0.0)
            for run in self.runs():
                left[run.point.name] += not self.directory.seems_done(run.job)
            return left
        path = self.directory.path
        runs = (run.relative_to(path).as_posix() for run in path.glob(run_name("*", "*")))
        ended = sum(read_run_state(path, run) not in (None, "begun") for run in runs)
        points = self.trials.points
        num_left = max(0, self.sweep.num_points * len(self.seeds) - ended)
        return dict.fromkeys((point.name for point in points), num_left / len(points))

    @property
    def reference(self) -> str:
        """Name of the point that others are compared with: the base's settings, or the first."""
        seed = self.seeds[0]
        base = self.sweep.config_of(Point(BASE_POINT)).model_copy(update={SEED: seed})
        points = self.trials.points
        same = [point for point in points if self._run(point, seed).config == base]
        return (same or points or [Point(BASE_POINT)])[0].name

    def record(self) -> None:
        """Record what is planned, for commands that read the directory without the sweep's file."""
        plan = {
            "points": [point.name for point in self.trials.points],
            "seeds": list(self.seeds),
            "reference": self.reference,
            "metric": self.metric,
            "evaluate": self.sweep.settings.evaluate,
            "made_of": {
                name: self._known_sums.get(name, {}) | self._sum_inputs(config)
                for name, config in {run.data.name: run.config for run in self.runs()}.items()
            },
        }
        write_text(self.directory.path / SWEEP_PLAN, json.dumps(plan, ensure_ascii=False) + "\n")


def share_data(data: Path, run: Path) -> None:
    """Give a new run prepared data, by hard links where the file system has them."""
    if run.is_dir():
        return
    run.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(run.parent)
    with whole_directory(run) as new:
        shutil.copyfile(data / MARK, new / MARK)  # so that the directory is known as a run
        for name in _SHARED:
            if (data / name).is_dir():
                shutil.copytree(data / name, new / name, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
