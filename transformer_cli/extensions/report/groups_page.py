"""A report on groups of runs as one HTML page: scores, charts, and what each setting explains."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import floor, log, log10, prod
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from transformer_cli.base.errors import duration
from transformer_cli.base.metrics import METRICS, TRAIN_LONGER
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.experiments.groups import RunGroup
from transformer_cli.extensions.experiments.seed_statistics import MetricComparison
from transformer_cli.extensions.report.charts import STEP, Chart, Series
from transformer_cli.extensions.report.examples import choose_differing
from transformer_cli.extensions.report.rendering import render_page
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

    @property
    def loss(self) -> float | None:
        """The lowest validation loss; None: there is none yet."""
        losses = (record["loss"] for record in self.validations)
        return min((loss for loss in losses if loss is not None), default=None)


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
        losses = [run.loss for run in scored if run.loss is not None]
        self.loss = fmean(losses) if losses else None
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
    """Return the indices of the groups, the best first: scored ones, then finished ones.

    They are ranked by the mean, and where it is equal, by the loss.
    """

    def key(index: int) -> tuple[bool, bool, float, float]:
        group = groups[index]
        score, loss = METRICS[metric].rank_with_loss(group.mean or 0.0, group.loss)
        return group.mean is None, not group.finished, -score, -loss

    return sorted(range(len(groups)), key=key)


class EvaluatedSplit(NamedTuple):
    """A split that groups were evaluated on, after training."""

    name: str
    src: Sequence[str]
    references: Sequence[str]
    groups: Sequence[str]  # evaluated ones; a group whose runs all failed is not among them
    translations: Sequence[Sequence[Sequence[str]]]  # by group, run and sentence
    comparisons: Mapping[str, MetricComparison]  # by the metric's name, of these groups


def describe_groups(
    title: str,
    groups: Sequence[RunGroup],
    settings: Mapping[str, Sequence[object]],
    metric: str,
    evaluated: Sequence[EvaluatedSplit] = (),
    unfinished: Mapping[Path, str] | None = None,
    reference: int = 0,
) -> dict[str, Any]:
    """Return all that a page on groups of runs shows, by the names of its template.

    Settings are those that differ, by dotted key, one value a group. Groups are ranked by the best
    validations' metric, and compared with the group of index ``reference``. ``unfinished`` has, by
    a run's directory, why it has not finished: 'failed', say.
    """
    results = [read_group(group, metric, unfinished or {}) for group in groups]
    order = rank_groups(results, metric)
    best = results[order[0]]
    is_low = METRICS[metric].says_nothing(each.mean for each in results if each.mean is not None)
    legend = [index for index in order if index != reference]
    legend.insert(min(order.index(reference), DRAWN - 1), reference)
    columns = [column for split in evaluated for column in _columns(split, results)]
    differences = [
        (column["split"], score.difference)
        for column in columns
        if column["metric"] == metric
        if (score := column["scores"][order[0]]) and score.difference
    ]
    pairs = [_find_differing(split, results, order, reference) for split in evaluated]
    runs = [run for group in (groups[reference], *groups) for run in group.runs]
    begun = next((run for run in runs if run.config.is_file()), None)
    return {
        "title": title,
        "groups": results,
        "order": order,
        "legend": legend,  # the same, with the reference among the first ``DRAWN``
        "reference": results[reference],
        "best": best if best.scores and not is_low else None,
        "why_none": TRAIN_LONGER if is_low else "no run was validated yet",
        "best_difference": next(iter(differences), None),  # from the reference, by the metric
        "metric": METRICS[metric].label,
        "settings": settings,
        "evaluated": [split.name for split in evaluated],
        "curves": make_group_curves(results, legend, metric),
        "setting_charts": make_setting_charts(results, legend, settings, metric),
        "importance": explain(settings, [group.scores for group in results]),
        "columns": columns,
        "differing": [pair for pair in pairs if pair is not None],
        "begun": begun,  # the reference group's first run that has; None: no run has
    }


def _columns(split: EvaluatedSplit, groups: Sequence[GroupResult]) -> Iterator[dict[str, Any]]:
    """Yield each metric's columns of the table, one score a row; None: not evaluated."""
    for name, comparison in split.comparisons.items():
        scores = dict(zip(split.groups, comparison.groups, strict=True))
        yield {
            "split": split.name,
            "metric": name,
            "head": f"{split.name}: {METRICS[name].label}",
            "signature": comparison.signature,
            "scores": [scores.get(group.name) for group in groups],
        }


def _find_differing(
    split: EvaluatedSplit, groups: Sequence[GroupResult], order: Sequence[int], reference: int
) -> dict[str, Any] | None:
    """Compare the best group with the reference, or the reference with the next best."""
    translations = dict(zip(split.groups, split.translations, strict=True))
    ranked = [groups[index].name for index in order if groups[index].name in translations]
    reference_name = groups[reference].name
    others = [name for name in ranked if name != reference_name]
    if not others or reference_name not in ranked:
        return None
    names = others[0], reference_name
    if order[0] == reference:
        names = reference_name, others[0]
    one, two = (translations[name] for name in names)
    better, worse = choose_differing(one, two, split.src, split.references)
    seeds = len(one), len(two)
    return {"split": split.name, "names": names, "seeds": seeds, "better": better, "worse": worse}


def render_groups(report: Mapping[str, Any], plotly: str) -> str:
    """Return the page of what ``describe_groups`` gave, with plotly.js in it."""
    charts = {chart.name: chart for chart in (*report["curves"], *report["setting_charts"])}
    config = report["begun"].load_config() if report["begun"] else None
    return render_page(
        "groups",
        plotly,
        {"charts": [chart.as_json() for chart in charts.values()], "drawn": DRAWN},
        charts=charts,
        drawn=DRAWN,
        is_repeated=any(len(group.runs) > 1 for group in report["groups"]),
        languages=(config.data.src_lang, config.data.tgt_lang) if config else None,
        config=dump_config(config) if config else None,
        duration=duration,
        **report,
    )


# --- charts ---------------------------------------------------------------------------------------


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


# --- importance: what part of the differences each setting explains -------------------------------


MIN_GROUPS = 4  # fewer say nothing about two settings
# A number with fewer values is treated as a category: a parabola would fit it as well.
_PARABOLA_LEVELS = 4


class Share(NamedTuple):
    """A setting's share of the variance."""

    key: str | None  # None: what the settings do only together, or nothing explains
    share: float  # from 0 to 1
    by_chance: float | None  # that of a setting without effect; None: unknown from single runs


class Importance(NamedTuple):
    """Shares of the variance, the largest first, the rest last."""

    is_grid: bool  # whether main effects of a full grid, else of ranks, one setting at a time
    groups: int
    shares: list[Share]


def explain(
    settings: Mapping[str, Sequence[object]], scores: Sequence[Sequence[float]]
) -> Importance | None:
    """Return what part of the differences between groups each setting explains.

    In a full grid, where each combination of values is one group, these are the main effects of an
    analysis of variance of the group means (eta squared), which add up to 1 with the interactions.
    What a setting without effect gets is its degrees of freedom's part of the variance that the
    runs of a group have among each other.

    Else it is, for each setting alone, the R squared of the ranks of the group means: on the means
    of its values or, for numbers of four values or more, on a parabola of the setting's rank, which
    an optimum within the range fits as well as one at its end. Ranks, because a few diverged or
    pruned points would have nearly all of the variance.

    Settings have one value a group, and groups one score a run; groups without any are left out.
    None: there are fewer than two settings or ``MIN_GROUPS`` groups, or all are equally good.
    """
    scored = [index for index, of_group in enumerate(scores) if of_group]
    levels = {}  # numbers of the different values, by setting with more than one
    for key, values in settings.items():
        own = np.unique([repr(values[index]) for index in scored], return_inverse=True)[1]
        if own.any():
            levels[key] = own
    means = np.array([np.mean(scores[index]) for index in scored])
    if len(levels) < 2 or len(scored) < MIN_GROUPS or np.ptp(means) < 1e-9:
        return None
    points = set(zip(*levels.values(), strict=True))
    num_points = prod(int(own.max()) + 1 for own in levels.values())
    if len(scores) == len(scored) == len(points) == num_points:
        return Importance(True, len(scored), _explain_grid(levels, scores, means))
    shares = [
        _explain_ranks(key, [settings[key][index] for index in scored], own, _ranks(means))
        for key, own in levels.items()
    ]
    return Importance(False, len(scored), sorted(shares, key=lambda share: -share.share))


def are_numbers(values: Sequence[object]) -> bool:
    """Whether all values are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _explain_grid(
    levels: Mapping[str, Int[np.ndarray, " groups"]],
    scores: Sequence[Sequence[float]],
    means: Float[np.ndarray, " groups"],
) -> list[Share]:
    freedom = len(means) - 1
    repeated = [np.var(runs, ddof=1) / len(runs) for runs in scores if len(runs) > 1]
    noise = min(1.0, float(np.mean(repeated) / np.var(means, ddof=1))) if repeated else None

    def share(key: str | None, explained: float, own_freedom: int) -> Share:
        by_chance = None if noise is None else noise * own_freedom / freedom
        return Share(key, explained, by_chance)

    shares, left, left_freedom = [], 1.0, freedom
    for key, own in levels.items():
        explained, own_freedom = _explained_by_levels(own, means), int(own.max())
        shares.append(share(key, explained, own_freedom))
        left, left_freedom = left - explained, left_freedom - own_freedom
    shares.sort(key=lambda share: -share.share)
    return [*shares, share(None, max(0.0, left), left_freedom)]


def _explain_ranks(
    key: str,
    values: Sequence[object],
    levels: Int[np.ndarray, " groups"],
    ranks: Float[np.ndarray, " groups"],
) -> Share:
    explained, own_freedom = _explained_by_levels(levels, ranks), int(levels.max())
    if are_numbers(values) and own_freedom + 1 >= _PARABOLA_LEVELS:
        x = _ranks(np.array(values, dtype=float))
        fitted = np.polynomial.Polynomial.fit(x, ranks, 2)(x)
        explained, own_freedom = float(np.var(fitted) / np.var(ranks)), 2
    return Share(key, explained, own_freedom / (len(ranks) - 1))


def _explained_by_levels(
    levels: Int[np.ndarray, " groups"], of: Float[np.ndarray, " groups"]
) -> float:
    """Return the share of the variance that is between levels (eta squared)."""
    level_means = np.bincount(levels, weights=of) / np.bincount(levels)
    return float(np.var(level_means[levels]) / np.var(of))


def _ranks(values: Float[np.ndarray, " groups"]) -> Float[np.ndarray, " groups"]:
    """Return each value's rank; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]
