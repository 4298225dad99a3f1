"""A report on groups of runs as one self-contained HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.errors import duration
from transformer_cli.evaluation.best_checkpoint import metric_for_best
from transformer_cli.evaluation.seed_statistics import (
    GroupDifference,
    GroupScore,
    MetricComparison,
)
from transformer_cli.metrics import METRICS
from transformer_cli.report.charts import Chart
from transformer_cli.report.examples import TwoTranslations, choose_differing
from transformer_cli.report.group_charts import (
    DRAWN,
    GroupResult,
    make_group_curves,
    make_setting_charts,
    rank_groups,
    read_group,
)
from transformer_cli.report.importance import Importance, explain
from transformer_cli.report.rendering import render_page
from transformer_cli.runs.groups import RunGroup


class EvaluatedSplit(NamedTuple):
    """A split that groups were evaluated on, after training."""

    name: str
    src: Sequence[str]
    references: Sequence[str]
    groups: Sequence[str]
    """Names of the evaluated groups; a group whose runs all failed is not among them."""
    translations: Sequence[Sequence[Sequence[str]]]  # by group, run and sentence
    comparisons: Mapping[str, MetricComparison]
    """By the metric's name, each of these groups in this order."""


class MetricColumns(NamedTuple):
    """A metric's columns of the table, one value a row."""

    split: str
    label: str
    signature: str
    scores: list[GroupScore | None]  # None: the group was not evaluated
    differences: list[GroupDifference | None]  # None for the reference group, too


class DifferingTranslations(NamedTuple):
    """What two groups translate most differently well, of one split."""

    split: str
    names: tuple[str, str]
    seeds: tuple[int, int]
    better: list[TwoTranslations]  # by the first group
    worse: list[TwoTranslations]


@dataclass(frozen=True)
class GroupsReport:
    """Content of a report on groups of runs."""

    title: str
    groups: list[GroupResult]
    order: list[int]  # their indices, the best first
    legend: list[int]  # the same, with the reference among the first ``DRAWN``
    reference: int
    metric: str  # label of the validation score
    settings: dict[str, list[object]]
    evaluated: list[str]  # names of the splits
    charts: list[Chart]
    setting_charts: list[Chart]
    importance: Importance | None
    columns: list[MetricColumns]
    translations: list[DifferingTranslations]
    config: Config | None  # of the reference group's first run that has begun; None: no run has
    config_of: Path | None  # directory of that run

    @property
    def best(self) -> GroupResult | None:
        """The group with the best mean; None: nothing was validated yet."""
        first = self.groups[self.order[0]]
        return first if first.scores else None

    @property
    def best_difference(self) -> tuple[str, GroupDifference] | None:
        """The best group's difference from the reference on an evaluated split, by the metric."""
        for columns in self.columns:
            difference = columns.differences[self.order[0]]
            if difference is not None and columns.label == self.metric:
                return columns.split, difference
        return None


def build_groups_page(
    title: str,
    groups: Sequence[RunGroup],
    settings: Mapping[str, Sequence[object]],
    evaluated: Sequence[EvaluatedSplit] = (),
    unfinished: Mapping[Path, str] | None = None,
    reference: int = 0,
    metric: str | None = None,
) -> GroupsReport:
    """Collect all that a page on groups of runs shows.

    Args:
        title: the sweep's name, say.
        groups: at least one, each with another name.
        settings: those that differ between the groups, by dotted key, one value a group.
        evaluated: splits that groups were evaluated on.
        unfinished: by a run's directory, why it has not finished: 'failed', say.
        reference: index of the group that the others are compared with.
        metric: what groups are ranked by, a key of ``METRICS``; None: what the reference
            group's best checkpoints are chosen by, but lowercased BLEU if any translations are.
    """
    runs = [run for group in (groups[reference], *groups) for run in group.runs]
    run = next((run for run in runs if run.config.is_file()), None)
    config = run.load_config() if run else None
    if metric is None:
        metric = metric_for_best(config) if config else "bleu"
        if metric == "bleu" and any(settings.get("tokenizer.lowercase", ())):
            metric = "bleu_lc"
    results = [read_group(group, metric, unfinished or {}) for group in groups]
    order = rank_groups(results, metric)
    legend = [index for index in order if index != reference]
    legend.insert(min(order.index(reference), DRAWN - 1), reference)
    differing = {key: list(values) for key, values in settings.items()}
    translations = [_find_differing(split, results, order, reference) for split in evaluated]
    return GroupsReport(
        title=title,
        groups=results,
        order=order,
        legend=legend,
        reference=reference,
        metric=METRICS[metric].label,
        settings=differing,
        evaluated=[split.name for split in evaluated],
        charts=make_group_curves(results, legend, metric),
        setting_charts=make_setting_charts(results, legend, differing, metric),
        importance=explain(differing, [group.scores for group in results]),
        columns=[columns for split in evaluated for columns in _make_columns(split, results)],
        translations=[each for each in translations if each is not None],
        config=config,
        config_of=run.path if run else None,
    )


def _make_columns(split: EvaluatedSplit, groups: Sequence[GroupResult]) -> Iterator[MetricColumns]:
    place = {name: index for index, name in enumerate(split.groups)}
    rows = [place.get(group.name) for group in groups]
    for name, comparison in split.comparisons.items():
        yield MetricColumns(
            split.name,
            METRICS[name].label,
            comparison.signature,
            [None if row is None else comparison.groups[row] for row in rows],
            [None if row is None else comparison.differences[row] for row in rows],
        )


def _find_differing(
    split: EvaluatedSplit, groups: Sequence[GroupResult], order: Sequence[int], reference: int
) -> DifferingTranslations | None:
    """Compare the best group with the reference, or the reference with the next best."""
    translations = dict(zip(split.groups, split.translations, strict=True))
    ranked = [groups[index].name for index in order if groups[index].name in translations]
    reference_name = groups[reference].name
    others = [name for name in ranked if name != reference_name]
    if not others or reference_name not in ranked:
        return None
    names = (others[0], reference_name)
    if order[0] == reference:
        names = (reference_name, others[0])
    one, two = (translations[name] for name in names)
    better, worse = choose_differing(one, two, split.src, split.references)
    return DifferingTranslations(split.name, names, (len(one), len(two)), better, worse)


def render_groups(report: GroupsReport, plotly: str) -> str:
    """Return the page, with plotly.js in it."""
    charts = [*report.charts, *report.setting_charts]
    data = report.config.data if report.config else None
    return render_page(
        "groups",
        plotly,
        {"charts": [chart.as_json() for chart in charts], "drawn": DRAWN},
        report=report,
        charts={chart.name: chart for chart in charts},
        drawn=DRAWN,
        is_repeated=any(len(group.runs) > 1 for group in report.groups),
        languages=(data.src_lang, data.tgt_lang) if data else None,
        config=dump_config(report.config) if report.config else None,
        duration=duration,
    )
