"""A page on a sweep: scores, curves, and charts of settings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from transformer_cli.base.errors import duration
from transformer_cli.base.metrics import METRICS
from transformer_cli.config.differences import as_yaml
from transformer_cli.config.yaml import dump_config
from transformer_cli.extensions.experiments.results import (
    EvaluatedSplit,
    GroupResult,
    SweepResults,
    are_all_low,
    best_group,
    rank_groups,
    read_results,
)
from transformer_cli.extensions.experiments.seed_statistics import TRAIN_LONGER
from transformer_cli.extensions.experiments.sweep import SweepDirectory
from transformer_cli.extensions.report.charts import STEP, Chart, Series
from transformer_cli.extensions.report.rendering import plotly_script, render_page

DRAWN = 12  # groups whose curves are drawn at first; there are as many colours
_WIDE_RANGE = 10  # a larger ratio of values is drawn on a logarithmic axis


def open_sweep_page(directory: Path, say: Callable[[str], object]) -> Callable[[], str] | None:
    """Return a function that makes the page of a sweep's directory; None: it is no sweep."""
    if SweepDirectory(directory).read_mark() is None:
        return None
    return lambda: render_results(read_results(directory, say))


def render_results(results: SweepResults) -> str:
    """Return the page about a sweep."""
    script = plotly_script()  # before long work
    return render_groups(describe_groups(results), script)


def describe_groups(reached: SweepResults) -> dict[str, Any]:
    """Return all that a page on groups of runs shows, by the names of its template."""
    metric, reference, results = reached.metric, reached.reference, reached.groups
    order = rank_groups(results, metric)
    legend = [index for index in order if index != reference]
    legend.insert(min(order.index(reference), DRAWN - 1), reference)
    columns = [column for split in reached.splits for column in _columns(split, results)]
    differences = [
        (column["split"], score.difference)
        for column in columns
        if column["metric"] == metric
        if (score := column["scores"][order[0]]) and score.difference
    ]
    runs = [run.directory for group in (results[reference], *results) for run in group.runs]
    is_low = are_all_low(results, metric)
    return {
        "title": reached.title,
        "groups": results,
        "order": order,
        "legend": legend,  # the same, with the reference among the first ``DRAWN``
        "reference": results[reference],
        "best": best_group(results, metric),
        "why_none": TRAIN_LONGER if is_low else "no run was validated yet",
        "best_difference": next(iter(differences), None),  # from the reference, by the metric
        "metric": METRICS[metric].label,
        "settings": reached.settings,
        "evaluated": [split.name for split in reached.splits],
        "curves": make_group_curves(results, legend, metric),
        "setting_charts": make_setting_charts(results, legend, reached.settings, metric),
        "columns": columns,
        # The first run that has begun, the reference group's if one of them has.
        "begun": next((run for run in runs if run.config.is_file()), None),
    }


def _columns(split: EvaluatedSplit, groups: Sequence[GroupResult]) -> Iterator[dict[str, Any]]:
    """Yield each metric's columns of the table, with a score a row, or None if not evaluated."""
    for name, comparison in split.comparisons.items():
        scores = dict(zip(split.groups, comparison.groups, strict=True))
        yield {
            "split": split.name,
            "metric": name,
            "head": f"{split.name}: {METRICS[name].label}",
            "signature": comparison.signature,
            "scores": [scores.get(group.name) for group in groups],
        }


def render_groups(report: Mapping[str, Any], plotly: str) -> str:
    """Return the page of a report by ``describe_groups``, with plotly.js in it."""
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
    """Return charts of validation score and loss by step, if there is data.

    Each group is a line, the mean of its runs, in a band from the lowest to the highest.
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
    """Return a group's mean and band, separately for steps that not all of its runs have reached.

    The runs' first validations are the first point, and so on: at the end of an epoch, the step
    depends on the seed, because batches differ.
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
    # With more groups, colours would repeat.
    roles = {index: str(place if len(groups) <= DRAWN else 0) for place, index in enumerate(order)}
    for place, (key, values) in enumerate(settings.items()):
        scored = [value for value, group in zip(values, groups, strict=True) if group.scores]
        if not scored:
            continue
        scale, categories = _scale(scored)
        dots = [_dots(groups[index], roles[index], values[index], scale) for index in order]
        says = f"Best validation {label} by {key}; the table has the numbers."
        # The title names the x axis.
        series = [*chain.from_iterable(dots)]
        chart = Chart(f"setting-{place}", key, "", label, series, says, "dots", from_zero=False)
        charts.append(chart._replace(x_scale=scale, categories=categories))
    return charts


def _dots(group: GroupResult, role: str, value: object, scale: str) -> list[Series]:
    """Return a group's runs as small dots, unfinished ones hollow, and its mean as a large dot."""
    x = as_yaml(value) if scale == "category" else value
    series = []
    for is_faint in (False, True):
        runs = [run for run in group.runs if run.score is not None and bool(run.state) is is_faint]
        if runs:
            notes = [
                f"{group.name}\n{run.directory.path.name}: "
                f"{f'{run.state}, ' if run.state else ''}{run.score:.2f}"
                for run in runs
            ]
            y = [run.score for run in runs]
            series.append(Series(group.name, role, [x] * len(y), y, notes, is_faint=is_faint))
    if group.mean is not None and len(group.scores) > 1:
        note = f"{group.name}\nmean of {len(group.scores)}: {group.mean:.2f}"
        low, high = min(group.scores), max(group.scores)
        series.append(Series(group.name, role, [x], [group.mean], [note], [low], [high]))
    return series


def _scale(values: Sequence[Any]) -> tuple[str, list[str] | None]:
    """Return an axis' scale, and the categories in their order."""
    if _are_numbers(values):
        is_wide = min(values) > 0 and max(values) / min(values) > _WIDE_RANGE
        return "log" if is_wide else "linear", None
    numbers = sorted({value for value in values if _are_numbers([value])})
    return "category", list(dict.fromkeys(as_yaml(value) for value in [*numbers, *values]))


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
