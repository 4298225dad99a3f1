"""What ``sweep`` says at its end, and what ``report`` shows of a sweep."""

from collections.abc import Iterator, Sequence

from transformer_cli.cli.compare_tables import format_group_scores
from transformer_cli.cli.display import log
from transformer_cli.errors import MissingExtraError
from transformer_cli.evaluation.metric_choice import metrics_of_runs
from transformer_cli.evaluation.seed_statistics import MetricComparison, compare_groups
from transformer_cli.metrics import METRICS
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.results import SweepResults, TranslatedSplit


def _compare_splits(
    results: SweepResults,
) -> Iterator[tuple[TranslatedSplit, dict[str, MetricComparison]]]:
    """Compare the points of each split with the reference, if it has translations of it."""
    if not results.splits:
        return
    reference = results.groups[results.reference]
    runs = [run for group in results.groups for run in group.runs]
    metrics = metrics_of_runs(reference.runs[0].load_config(), runs, log)
    for split in results.splits:
        given = split.translations, split.text.tgt
        is_there = reference.name in split.groups
        number = split.groups.index(reference.name) if is_there else None
        yield split, compare_groups(*given, number, metrics)


def format_splits(results: SweepResults) -> list[str]:
    """Return the lines of a table for each evaluated split."""
    lines: list[str] = []
    try:
        for split, compared in _compare_splits(results):
            lines += ["", f"{split.name}: {len(split.text):,} sentences"]
            for name, metric in compared.items():
                lines += ["", *format_group_scores(METRICS[name].label, split.groups, metric)]
    except MissingExtraError as error:
        return [*lines, "", str(error)]
    if lines:
        lines += ["", *_explain(results)]
    return lines


def _explain(results: SweepResults) -> Sequence[str]:
    lines = ["mean: over seeds, ± their standard deviation. interval: of the mean."]
    if len(results.groups) > 1:
        reference = results.groups[results.reference].name
        holm = ", and after Holm's correction" if len(results.groups) > 2 else ""
        lines += [
            f"difference: from {reference}, with p by a test over seeds and sentences{holm};",
            "needed: seeds that show such a difference 4 times in 5",
        ]
    return lines


def render_sweep(directory: SweepDirectory, results: SweepResults) -> str:
    """Return the page about a sweep.

    Raises:
        MissingExtraError: plotly, Jinja or scipy is not installed.
    """
    from transformer_cli.report.groups_page import EvaluatedSplit, build_groups_page, render_groups
    from transformer_cli.report.rendering import plotly_script

    script = plotly_script()
    evaluated = [
        EvaluatedSplit(
            split.name,
            split.text.src,
            split.text.tgt,
            split.groups,
            split.translations,
            compared,
        )
        for split, compared in _compare_splits(results)
    ]
    page = build_groups_page(
        directory.path.name,
        results.groups,
        results.settings,
        evaluated,
        results.unfinished,
        results.reference,
        results.metric,
    )
    return render_groups(page, script)
