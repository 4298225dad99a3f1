"""What groups of runs have reached: their validations, their best scores, their time."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.groups import RunGroup
from transformer_cli.runs.records import Record, best_score, number, read_records, validations


@dataclass(frozen=True)
class RunResult:
    """One run's validations."""

    name: str
    """Its directory's."""
    validations: list[Record]
    score: float | None
    """Of its best validation; None: it was not validated yet."""
    seconds: float | None
    """Time spent training; None: there is no record."""
    state: str | None
    """Why it has not finished: 'failed', say; None: it has."""


@dataclass(frozen=True)
class GroupResult:
    """A group's runs, and what they have reached together."""

    name: str
    runs: list[RunResult]

    @property
    def finished(self) -> list[RunResult]:
        """Its finished runs."""
        return [run for run in self.runs if run.state is None]

    @property
    def scored(self) -> list[RunResult]:
        """The runs that speak for the group: the finished ones, or else all that have a score."""
        return [run for run in self.finished or self.runs if run.score is not None]

    @property
    def scores(self) -> list[float]:
        """The best validation scores of ``scored``."""
        return [run.score for run in self.scored if run.score is not None]

    @property
    def mean(self) -> float | None:
        """Mean of ``scores``."""
        return statistics.fmean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation of ``scores``; None for fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def seconds(self) -> float | None:
        """Mean time of a run of ``scored``."""
        found = [run.seconds for run in self.scored if run.seconds is not None]
        return statistics.fmean(found) if found else None

    @property
    def unfinished(self) -> dict[str, int]:
        """Number of its runs in each state but finished."""
        states = [run.state for run in self.runs if run.state is not None]
        return {state: states.count(state) for state in dict.fromkeys(states)}


def read_group(group: RunGroup, metric: str, unfinished: Mapping[Path, str]) -> GroupResult:
    """Return what a group's runs have recorded.

    Args:
        group: its runs; one that has not begun has no records.
        metric: the score of a validation, a key of ``METRIC_NAMES``.
        unfinished: the state of each run that has not finished, by its directory.
    """
    return GroupResult(
        group.name,
        [_read_run(run, metric, unfinished.get(run.path)) for run in group.runs],
    )


def rank_groups(groups: Sequence[GroupResult], metric: str) -> list[int]:
    """Return the indices of the groups, the best mean first and those without a score last.

    Groups with a finished run come before those without.
    """
    sign = 1.0 if metric == "loss" else -1.0

    def key(index: int) -> tuple[bool, bool, float, int]:
        mean = groups[index].mean
        return mean is None, not groups[index].finished, sign * (mean or 0.0), index

    return sorted(range(len(groups)), key=key)


def _read_run(run: RunDirectory, metric: str, state: str | None) -> RunResult:
    records = read_records(run.metrics)
    validated = validations(records)
    scores = [each[metric] for each in validated if each[metric] is not None]
    seconds = [spent for each in records if (spent := number(each, "seconds")) is not None]
    return RunResult(
        run.path.name, validated, best_score(scores, metric), max(seconds, default=None), state
    )
