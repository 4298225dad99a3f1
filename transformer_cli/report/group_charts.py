"""What groups of runs have reached, and charts of it: curves, and scores by setting."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import floor, log, log10
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from transformer_cli.config.differences import as_yaml
from transformer_cli.metrics import METRICS
from transformer_cli.report.charts import STEP, Chart, Series
from transformer_cli.report.importance import are_numbers
from transformer_cli.runs.groups import RunGroup
from transformer_cli.runs.metrics_log import Record, number, read_records, validations

DRAWN = 12  # groups whose curves are drawn at first; there are as many colours
_WIDE_RANGE = 10  # a larger ratio of values is drawn on a logarithmic axis
_MAX_TICKS = 6
_MIN_GAP = 0.09  # of the axis, between two ticks with room for their numbers
_LONGEST_TICK = 18


@dataclass(frozen=True)
class RunResult:
    """One run's validations."""

    name: str  # its directory's
    validations: list[Record]
    score: float | None  # of its best validation; None: it was not validated yet
    seconds: float | None  # time spent training; None: there is no record
    state: str | None  # why it has not finished: 'failed', say; None: it has


@dataclass
class GroupResult:
    """A group's runs, and what they have reached together."""

    name: str
    runs: list[RunResult]

    def __post_init__(self) -> None:
        self.finished = [run for run in self.runs if run.state is None]
        self.unfinished = Counter(run.state for run in self.runs if run.state is not None)
        # Runs that have not finished speak for the group where no other has.
        scored = [run for run in self.finished or self.runs if run.score is not None]
        self.scores = [run.score for run in scored if run.score is not None]
        self.mean = fmean(self.scores) if self.scores else None
        self.deviation = stdev(self.scores) if len(self.scores) > 1 else None
        times = [run.seconds for run in scored if run.seconds is not None]
        self.seconds = fmean(times) if times else None  # a run


def read_group(group: RunGroup, metric: str, unfinished: Mapping[Path, str]) -> GroupResult:
    """Return what a group's runs have recorded; unfinished ones have a state."""
    runs = []
    for run in group.runs:
        records = read_records(run.metrics)
        validated = validations(records)
        scores = [record[metric] for record in validated if record[metric] is not None]
        seconds = [spent for record in records if (spent := number(record, "seconds")) is not None]
        best, longest = METRICS[metric].best(scores), max(seconds, default=None)
        state = unfinished.get(run.path)
        runs.append(RunResult(run.path.name, validated, best, longest, state))
    return GroupResult(group.name, runs)


def rank_groups(groups: Sequence[GroupResult], metric: str) -> list[int]:
    """Return the indices of the groups by mean, the best first: scored ones, then finished ones."""

    def key(index: int) -> tuple[bool, bool, float, int]:
        mean = groups[index].mean
        return mean is None, not groups[index].finished, -METRICS[metric].rank(mean or 0.0), index

    return sorted(range(len(groups)), key=key)


def make_group_curves(
    groups: Sequence[GroupResult], order: Sequence[int], metric: str
) -> list[Chart]:
    """Return charts of validation score and loss by step, where there is data.

    Each group is a line, the mean over its runs, in a band from the lowest to the highest.
    """
    charts = []
    for key in dict.fromkeys((metric, "loss")):
        name, label, y = "score", METRICS[key].label, f"{METRICS[key].label}, greedy"
        if key == "loss":
            name, label, y = "loss", "Loss", "nats a token"
        curves = [_curve(groups[index], str(place), key) for place, index in enumerate(order)]
        if not any(curves):
            continue
        title = f"{label} of the validation split"
        says = f"{title} by optimizer step, one line for each group; the table has the scores."
        series = [*chain.from_iterable(curves)]
        charts.append(
            Chart(f"curves-{name}", title, STEP, y, series, says, "bands", from_zero=False)
        )
    return charts


def _curve(group: GroupResult, role: str, key: str) -> list[Series]:
    """Return a group's mean and band; apart, what not all of its validated runs have reached.

    The runs' first validations make the first point, and so on: a validation at the end of an
    epoch is not at the same step with each seed, whose batches differ.
    """
    curves = [
        [(record["step"], record[key]) for record in run.validations if record[key] is not None]
        for run in group.runs
    ]
    curves = [curve for curve in curves if curve]
    if not curves:
        return []
    complete, longest = min(map(len, curves)), max(map(len, curves))
    points = [[curve[n] for curve in curves if n < len(curve)] for n in range(longest)]
    series = [_curve_part(group.name, role, points[:complete], is_faint=False)]
    if complete < longest:
        series.append(_curve_part(group.name, role, points[complete - 1 :], is_faint=True))
    return series


def _curve_part(
    name: str, role: str, points: Sequence[Sequence[tuple[int, float]]], is_faint: bool
) -> Series:
    steps = [round(fmean(step for step, _ in row)) for row in points]
    values = [[value for _, value in row] for row in points]
    means, lows, highs = ([of(row) for row in values] for of in (fmean, min, max))
    notes = [
        f"{name}\nstep {step:,}: {mean:.4g}"
        + (f", {low:.4g} to {high:.4g} in {len(row)} seeds" if len(row) > 1 else "")
        for step, mean, low, high, row in zip(steps, means, lows, highs, values, strict=True)
    ]
    line = Series(name, role, steps, list(means), notes, is_faint=is_faint)
    is_repeated = any(len(row) > 1 for row in points)
    return line._replace(low=list(lows), high=list(highs)) if is_repeated else line


def make_setting_charts(
    groups: Sequence[GroupResult],
    order: Sequence[int],
    settings: Mapping[str, Sequence[object]],
    metric: str,
) -> list[Chart]:
    """Return a chart for each setting: the runs' best validation scores by its values."""
    charts = []
    label = METRICS[metric].label
    # Where colours would repeat they say nothing.
    roles = {index: str(place if len(groups) <= DRAWN else 0) for place, index in enumerate(order)}
    for place, (key, values) in enumerate(settings.items()):
        scored = [value for value, group in zip(values, groups, strict=True) if group.scores]
        if not scored:
            continue
        scale, ticks = _scale(scored)
        dots = [_dots(groups[index], roles[index], values[index], scale) for index in order]
        says = f"Best validation {label} by {key}; the table has the numbers."
        # The title says what the x axis is.
        chart = Chart(
            f"setting-{place}", key, "", label, [*chain.from_iterable(dots)], says, "dots"
        )
        names = [_shorten(tick) for tick in ticks] if ticks else None
        charts.append(chart._replace(from_zero=False, x_scale=scale, ticks=ticks, tick_names=names))
    return charts


def _dots(group: GroupResult, role: str, value: object, scale: str) -> list[Series]:
    """Return a group's runs as small dots, unfinished ones hollow, and its mean as a large one."""
    x = as_yaml(value) if scale == "category" else value
    series = []
    for is_faint in (False, True):
        runs = [run for run in group.runs if run.score is not None and bool(run.state) is is_faint]
        if runs:
            notes = [
                f"{group.name}\n{run.name}: {f'{run.state}, ' if run.state else ''}{run.score:.2f}"
                for run in runs
            ]
            y = [run.score for run in runs]
            series.append(Series(group.name, role, [x] * len(y), y, notes, is_faint=is_faint))
    if group.mean is not None and len(group.scores) > 1:
        note = f"{group.name}\nmean of {len(group.scores)}: {group.mean:.2f}"
        low, high = min(group.scores), max(group.scores)
        series.append(Series(group.name, role, [x], [group.mean], [note], [low], [high]))
    return series


def _scale(values: Sequence[Any]) -> tuple[str, list[Any] | None]:
    """Return an axis' scale, and its ticks: the values, in order, where there is room for them."""
    if not are_numbers(values):
        numbers = sorted({value for value in values if are_numbers([value])})
        return "category", list(dict.fromkeys(as_yaml(value) for value in [*numbers, *values]))
    distinct = sorted(set(values))
    low, high = distinct[0], distinct[-1]
    scale = "log" if low > 0 and high / low > _WIDE_RANGE else "linear"
    places = [log(value) if scale == "log" else value for value in distinct]
    gap = _MIN_GAP * (places[-1] - places[0])
    if len(distinct) <= _MAX_TICKS and all(b - a >= gap for a, b in pairwise(places)):
        return scale, distinct
    return scale, _round_numbers(low, high) if scale == "log" else None


def _round_numbers(low: float, high: float) -> list[float]:
    """Return round numbers between two, at most three for a power of ten."""
    factors = (1, 2, 5) if high / low < 20 else (1, 3) if high / low < 3000 else (1,)
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    numbers = [float(f"{factor}e{power}") for power in powers for factor in factors]
    return [number for number in numbers if low <= number <= high]


def _shorten(value: object) -> str:
    text = f"{value:g}" if are_numbers([value]) else as_yaml(value)
    return text if len(text) <= _LONGEST_TICK else f"{text[: _LONGEST_TICK - 1]}…"
