"""What a sweep has trained and scored, as its directory tells: tables, and a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from transformer_cli.cli.compare_tables import format_group_scores, group_notes
from transformer_cli.cli.display import log
from transformer_cli.config.differences import differing_settings
from transformer_cli.data.sources import load_split
from transformer_cli.errors import RunError
from transformer_cli.evaluation.best_checkpoint import metrics_of_runs
from transformer_cli.evaluation.seed_statistics import compare_groups
from transformer_cli.files import read_small
from transformer_cli.jobs.sweep import TRANSLATIONS, SweepDirectory, scores_name
from transformer_cli.metrics import METRICS
from transformer_cli.report.groups_page import EvaluatedSplit, describe_groups, render_groups
from transformer_cli.report.rendering import plotly_script
from transformer_cli.runs.groups import RunGroup, read_run_state, read_sweep_plan, run_name
from transformer_cli.runs.initialize import corpus_directory

_MAX_BYTES = 1 << 28  # of the translations of a split: of a million lines
_UNFINISHED = {"done": "", "failed": "failed", "pruned": "pruned"}
"""Why a run has not finished, by the state of its job."""


class SweepResults(NamedTuple):
    """All points that have begun, in the order of the sweep's file: what their page is made of."""

    title: str
    groups: list[RunGroup]
    settings: dict[str, list[object]]
    metric: str
    splits: list[EvaluatedSplit]
    unfinished: dict[Path, str]
    reference: int


def read_results(directory: SweepDirectory) -> SweepResults:
    """Read what a sweep has reached so far, and compare the translations."""
    plan = read_sweep_plan(directory.path)
    unfinished: dict[Path, str] = {}
    groups = []
    for point in plan["points"]:
        runs = [directory.run(point, seed) for seed in plan["seeds"]]
        begun = tuple(run for run in runs if run.config.is_file())
        if begun:
            groups.append(RunGroup(point, begun))
        for run in begun:
            name = run.path.relative_to(directory.path).as_posix()
            state = read_run_state(directory.path, name) or ""
            if why := _UNFINISHED.get(state, "unfinished"):
                unfinished[run.path] = why
    if not groups:
        raise RunError(f"{directory.path}: no run has begun; run the sweep first")
    names = [group.name for group in groups]
    reference = names.index(plan["reference"]) if plan["reference"] in names else 0
    settings = differing_settings([group.runs[0].load_config() for group in groups])
    settings.pop("seed", None)
    splits = [*_read_splits(directory, plan, groups, groups[reference])]
    title, metric = directory.path.name, plan["metric"]
    return SweepResults(title, groups, settings, metric, splits, unfinished, reference)


def _read_splits(
    directory: SweepDirectory, plan: dict[str, Any], groups: list[RunGroup], reference: RunGroup
) -> Iterator[EvaluatedSplit]:
    """Yield the splits that have translations, with comparisons of their points."""
    if not plan["evaluate"]:
        return
    runs = [run for group in groups for run in group.runs]
    metrics = metrics_of_runs(reference.runs[0].load_config(), runs, log)
    for split in plan["evaluate"]:
        by_point = {
            group.name: [*_read_translations(directory, plan, split, group.name)]
            for group in groups
        }
        names = [name for name, translations in by_point.items() if translations]
        if not names:
            continue
        run = next(group.runs[0] for group in groups if group.name in names)
        text = load_split(run.load_config().data, split, corpus_directory(run))
        translations = [by_point[name] for name in names]
        number = names.index(reference.name) if reference.name in names else None
        compared = compare_groups(translations, text.tgt, number, metrics)
        yield EvaluatedSplit(split, text.src, text.tgt, names, translations, compared)


def _read_translations(
    directory: SweepDirectory, plan: dict[str, Any], split: str, point: str
) -> Iterator[list[str]]:
    """Yield the translations of each finished run of a point."""
    for seed in plan["seeds"]:
        path = directory.path / scores_name(split, point, seed) / TRANSLATIONS
        if path.is_file() and read_run_state(directory.path, run_name(point, seed)) == "done":
            text = read_small(path, _MAX_BYTES).decode(errors="replace")
            yield text.removesuffix("\n").split("\n")


def format_splits(results: SweepResults) -> list[str]:
    """Return the lines of a table for each evaluated split."""
    lines: list[str] = []
    for split in results.splits:
        lines += ["", f"{split.name}: {len(split.references):,} sentences"]
        for name, metric in split.comparisons.items():
            lines += ["", *format_group_scores(METRICS[name].label, split.groups, metric)]
    reference = results.groups[results.reference].name
    return [*lines, "", *group_notes(reference, len(results.groups))]


def render_sweep(results: SweepResults) -> str:
    """Return the page about a sweep."""
    script = plotly_script()  # before long work
    return render_groups(describe_groups(*results), script)
