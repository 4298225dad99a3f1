"""Scores of groups of runs, and the differences between groups."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupScore:
    """A metric's scores of one group, in points."""

    scores: list[float]
    """One per run, in the group's order."""
    mean: float
    deviation: float | None
    """Sample standard deviation over the runs; None for a single run."""
    half_width: float | None
    """Half of the 95 % interval of the mean, over seeds; None for a single run."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of that interval, as far as BLEU and chrF go; None for a single run."""
        if self.half_width is None:
            return None
        return max(0.0, self.mean - self.half_width), min(100.0, self.mean + self.half_width)


@dataclass(frozen=True)
class GroupDifference:
    """The difference between a group's mean and the reference group's, in points."""

    difference: float
    half_width: float | None
    """Half of its 95 % interval, over seeds and sentences; None if a group is a single run."""
    p_value: float | None
    """Of a test over seeds and sentences; None if a group is a single run."""
    p_holm: float | None
    """``p_value`` after Holm's correction for all groups that are compared with the reference."""
    needed_seeds: int | None
    """Seeds per group that would show a difference of this size in four of five experiments."""


@dataclass(frozen=True)
class MetricComparison:
    """All groups by one metric."""

    metric: str
    """'bleu', 'bleu_lc' or 'chrf'."""
    signature: str
    groups: list[GroupScore]
    differences: list[GroupDifference | None]
    """One per group; None for the reference group."""
