"""A report on groups of runs as one self-contained HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.config.yaml import dump_config
from transformer_cli.errors import duration
from transformer_cli.evaluation.seed_statistics import MetricComparison
from transformer_cli.metrics import METRICS
from transformer_cli.report import group_charts
from transformer_cli.report.examples import choose_differing
from transformer_cli.report.group_charts import DRAWN, GroupResult
from transformer_cli.report.importance import explain
from transformer_cli.report.rendering import render_page
from transformer_cli.runs.groups import RunGroup


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
    results = [group_charts.read_group(group, metric, unfinished or {}) for group in groups]
    order = group_charts.rank_groups(results, metric)
    best = results[order[0]]
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
        "best": best if best.scores else None,  # None: nothing was validated yet
        "best_difference": next(iter(differences), None),  # from the reference, by the metric
        "metric": METRICS[metric].label,
        "settings": settings,
        "evaluated": [split.name for split in evaluated],
        "curves": group_charts.make_group_curves(results, legend, metric),
        "setting_charts": group_charts.make_setting_charts(results, legend, settings, metric),
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
