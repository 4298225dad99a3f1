"""What runs have reached: each alone, groups of them, and all points of a sweep."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from transformer_cli.base.artifact import read_record
from transformer_cli.base.errors import RunError
from transformer_cli.base.files import read_small
from transformer_cli.base.metrics import METRICS, RankName
from transformer_cli.config.differences import differing_settings
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import load_split
from transformer_cli.evaluation.best_checkpoint import metrics_of_runs
from transformer_cli.extensions.experiments.job import JobRecord, job_file
from transformer_cli.extensions.experiments.seed_statistics import (
    MetricComparison,
    compare_groups,
    says_nothing,
)
from transformer_cli.extensions.report.recorded_numbers import number, validations
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.metrics_log import Record, read_records

MARK, PLAN, RUNS = "sweep.json", "plan.json", "runs"
"""In the directory of a sweep."""
TRANSLATIONS, SCORES = "translations.txt", "scores.json"  # the files of a scored run
_MAX_BYTES = 1 << 28  # of the translations of a split: a million lines
_UNFINISHED = {"done": None, "failed": "failed", "pruned": "pruned"}
"""Why a run has not finished, by the state of its job."""


# These are names of directories in the sweep's.
_Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]


class SweepRecord(BaseModel):
    """A sweep's plan, for commands that do not read the sweep's file."""

    model_config = ConfigDict(strict=True)

    points: list[_Name]
    seeds: list[NonNegativeInt]
    reference: str
    metric: RankName
    evaluate: list[_Name]


def run_name(point: str, seed: int | str) -> str:
    """Return the name of the job that trains a run: its path in the sweep's directory."""
    return f"{RUNS}/{point}/seed-{seed}"


def scores_name(split: str, point: str, seed: int) -> str:
    """Return the name of the job that scores a run on a split: the path of its files."""
    return f"scores/{split}/{point}/seed-{seed}"


def read_run_state(sweep: Path, run: str) -> str | None:
    """Return the ``JobRecord.state`` of a run; None: it never began."""
    record = read_record(job_file(sweep, run), JobRecord)
    return record.state if record is not None and (sweep / run).is_dir() else None


def read_sweep_plan(sweep: Path) -> SweepRecord:
    """Return a sweep's record of its points."""
    plan = read_record(sweep / PLAN, SweepRecord)
    if plan is None:
        raise RunError(f"{sweep / PLAN}: missing or damaged; run the sweep's command again")
    return plan


@dataclass(frozen=True)
class RunResult:
    """One run's validations, whether it has finished or not."""

    directory: RunDirectory
    metric: str
    validations: list[Record]
    seconds: float | None = None  # time spent training; None: there is no record
    state: str | None = None  # why it has not finished: 'failed', say; None: it has

    @classmethod
    def read(cls, run: RunDirectory, metric: str, state: str | None = None) -> "RunResult":
        """Read what a run has recorded so far."""
        records = read_records(run.metrics)
        seconds = [spent for record in records if (spent := number(record, "seconds")) is not None]
        validated = validations(records)
        return cls(run, metric, validated, max(seconds, default=None), state)

    @property
    def scores(self) -> list[float]:
        """The metric at each validation, in their order."""
        return [score for record in self.validations if (score := record[self.metric]) is not None]

    @property
    def score(self) -> float | None:
        return max(self.scores, key=METRICS[self.metric].rank, default=None)

    @property
    def loss(self) -> float | None:
        losses = (record["loss"] for record in self.validations)
        return min((loss for loss in losses if loss is not None), default=None)


@dataclass
class GroupResult:
    """Runs that differ in their seeds only, and what they have reached together."""

    name: str
    runs: list[RunResult]

    def __post_init__(self) -> None:
        self.finished = [run for run in self.runs if run.state is None]
        self.unfinished = Counter(run.state for run in self.runs if run.state is not None)
        # Runs that have not finished speak for the group where no other has.
        scored = [run for run in self.finished or self.runs if run.score is not None]
        self.scores = [run.score for run in scored if run.score is not None]
        self.mean = _mean(self.scores)
        self.deviation = stdev(self.scores) if len(self.scores) > 1 else None
        self.loss = _mean([run.loss for run in scored if run.loss is not None])
        self.seconds = _mean([run.seconds for run in scored if run.seconds is not None])

    def count_runs(self) -> str:
        others = (f"{number} {state}" for state, number in self.unfinished.items())
        return ", ".join((str(len(self.finished)), *others))


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def rank_groups(groups: Sequence[GroupResult], metric: str) -> list[int]:
    """Return the indices of the groups, the best first: scored ones, then finished ones.

    They are ranked by the mean, and where it is equal, by the loss.
    """

    def key(index: int) -> tuple[bool, bool, float, float]:
        group = groups[index]
        score = round(METRICS[metric].rank(group.mean or 0.0), 2)  # as tables show it
        loss = float("inf") if group.loss is None else group.loss
        return group.mean is None, not group.finished, -score, loss

    return sorted(range(len(groups)), key=key)


def best_group(groups: Sequence[GroupResult], metric: str) -> GroupResult | None:
    """Return the group with the best mean; None: none was validated yet, or all score about 0."""
    best = groups[rank_groups(groups, metric)[0]] if groups else None
    return None if best is None or best.mean is None or are_all_low(groups, metric) else best


def are_all_low(groups: Sequence[GroupResult], metric: str) -> bool:
    """Return whether all groups that have a score have one of about 0."""
    return says_nothing(metric, (group.mean for group in groups if group.mean is not None))


# --- a sweep's results ----------------------------------------------------------------------------


class EvaluatedSplit(NamedTuple):
    """A split that groups were evaluated on, after training."""

    name: str
    sentences: int
    groups: Sequence[str]  # evaluated ones; a group whose runs all failed is not among them
    comparisons: Mapping[str, MetricComparison]  # by the metric's name, of these groups


@dataclass(frozen=True)
class SweepResults:
    """All points that have begun, in the order of the sweep's file."""

    title: str
    groups: Sequence[GroupResult]
    settings: Mapping[str, Sequence[object]]  # those that differ, by dotted key, one value a group
    metric: str  # of the best validations
    splits: Sequence[EvaluatedSplit] = ()
    reference: int = 0  # index of the group that others are compared with


def read_results(sweep: Path, say: Callable[[str], object]) -> SweepResults:
    """Read what a sweep has reached so far, and compare the translations."""
    plan = read_sweep_plan(sweep)
    groups = []
    for point in plan.points:
        runs = []
        for name in (run_name(point, seed) for seed in plan.seeds):
            directory = RunDirectory(sweep / name)
            if directory.config.is_file():
                state = _UNFINISHED.get(read_run_state(sweep, name) or "", "unfinished")
                runs.append(RunResult.read(directory, plan.metric, state))
        if runs:
            groups.append(GroupResult(point, runs))
    if not groups:
        raise RunError(f"{sweep}: no run has begun; run the sweep first")
    names = [group.name for group in groups]
    reference = names.index(plan.reference) if plan.reference in names else 0
    settings = differing_settings([group.runs[0].directory.load_config() for group in groups])
    settings.pop("seed", None)
    splits = [*_read_splits(sweep, plan, groups, groups[reference], say)]
    return SweepResults(sweep.name, groups, settings, plan.metric, splits, reference)


def _read_splits(
    sweep: Path,
    plan: SweepRecord,
    groups: Sequence[GroupResult],
    reference: GroupResult,
    say: Callable[[str], object],
) -> Iterator[EvaluatedSplit]:
    """Yield the splits that have translations, with comparisons of their points."""
    if not plan.evaluate:
        return
    runs = [run.directory for group in groups for run in group.runs]
    metrics = metrics_of_runs(reference.runs[0].directory.load_config(), runs, say)
    for split in plan.evaluate:
        by_name = {group.name: [*_read_translations(sweep, plan, split, group)] for group in groups}
        evaluated = [group for group in groups if by_name[group.name]]
        if not evaluated:
            continue
        names = [group.name for group in evaluated]
        text, *others = (_load_text(group.runs[0].directory, split) for group in evaluated)
        differs = [(other.src, other.tgt) != (text.src, text.tgt) for other in others]
        if True in differs:
            name = names[1 + differs.index(True)]
            say(f"{split}: not compared, as {name} has other text in it than {names[0]}")
            continue
        translations = [by_name[name] for name in names]
        number = names.index(reference.name) if reference.name in names else None
        compared = compare_groups(translations, text.tgt, number, metrics)
        yield EvaluatedSplit(split, len(text), names, compared)


def _load_text(run: RunDirectory, split: str) -> ParallelText:
    return load_split(run.load_config().data, split, run.text_place)


def _read_translations(
    sweep: Path, plan: SweepRecord, split: str, group: GroupResult
) -> Iterator[list[str]]:
    """Yield the translations of each finished run of a point."""
    for seed in plan.seeds:
        path = sweep / scores_name(split, group.name, seed) / TRANSLATIONS
        if path.is_file() and read_run_state(sweep, run_name(group.name, seed)) == "done":
            text = read_small(path, _MAX_BYTES).decode(errors="replace")
            yield text.removesuffix("\n").split("\n")
