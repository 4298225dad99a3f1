"""A page on a sweep: scores and curves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from transformer_cli.base.errors import duration
from transformer_cli.base.metrics import METRICS
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
    charts = {chart.name: chart for chart in report["curves"]}
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
        series = [curve for curve in curves if curve is not None]
        if not series:
            continue
        title = f"{label} of the validation split"
        says = f"{title} by optimizer step, one line for each group; the table has the scores."
        charts.append(
            Chart(f"curves-{name}", title, STEP, y, series, says, "bands", from_zero=False)
        )
    return charts


def _curve(group: GroupResult, role: str, key: str) -> Series | None:
    """Return a group's mean, with a band if there are several runs; None: it has no validation.

    The runs' first validations are the first point, and so on: at the end of an epoch, the step
    depends on the seed, because batches differ. Runs that have not got as far are left out.
    """
    curves = [
        [(record["step"], record[key]) for record in run.validations if record[key] is not None]
        for run in group.runs
    ]
    points = [
        [curve[n] for curve in curves if n < len(curve)] for n in range(max(map(len, curves)))
    ]
    if not points:
        return None
    steps = [round(fmean(step for step, _ in row)) for row in points]
    values = [[value for _, value in row] for row in points]
    means, lows, highs = ([of(row) for row in values] for of in (fmean, min, max))
    notes = [
        f"{group.name}\nstep {step:,}: {mean:.4g}"
        + (f", {low:.4g} to {high:.4g} in {len(row)} seeds" if len(row) > 1 else "")
        for step, mean, low, high, row in zip(steps, means, lows, highs, values, strict=True)
    ]
    line = Series(group.name, role, steps, list(means), notes)
    is_repeated = any(len(row) > 1 for row in points)
    return line._replace(low=list(lows), high=list(highs)) if is_repeated else line
