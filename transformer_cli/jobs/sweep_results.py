"""What a sweep has trained and scored, as its directory tells."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_cli.config.differences import differing_settings
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.sources import load_split
from transformer_cli.errors import RunError
from transformer_cli.files import read_small
from transformer_cli.jobs.sweep import TRANSLATIONS, SweepDirectory, scores_name
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.groups import RunGroup, read_run_state, read_sweep_plan, run_name
from transformer_cli.runs.initialize import corpus_directory

_MAX_BYTES = 1 << 28
"""Of the translations of a split: of a million lines."""


@dataclass(frozen=True)
class TranslatedSplit:
    """A split, and the finished runs' translations of it."""

    name: str
    text: ParallelText
    groups: list[str]
    """Names of the points that have translations."""
    translations: list[list[list[str]]]
    """By these points, run and sentence."""


@dataclass(frozen=True)
class SweepResults:
    """All points that have begun, in the order of the sweep's file."""

    groups: list[RunGroup]
    settings: dict[str, list[object]]
    """Those that differ, by dotted key, one value a point."""
    unfinished: dict[Path, str]
    """By a run's directory, why it has not finished."""
    reference: int
    """Index of the point that the others are compared with."""
    metric: str
    """What points are judged by, a key of ``METRICS``."""
    splits: list[TranslatedSplit]


def read_results(directory: SweepDirectory) -> SweepResults:
    """Read what a sweep has reached so far.

    Raises:
        RunError: no run has begun, or plan.json is damaged.
        CorpusError: the text of a split is not there any more.
    """
    plan = read_sweep_plan(directory.path)
    unfinished: dict[Path, str] = {}
    groups = []
    for point in plan["points"]:
        runs = [each for seed in plan["seeds"] if (each := _find_run(directory, point, seed))]
        if runs:
            groups.append(RunGroup(point, tuple(run for run, _ in runs)))
            unfinished.update({run.path: why for run, why in runs if why})
    if not groups:
        raise RunError(f"{directory.path}: no run has begun; run the sweep first")
    names = [group.name for group in groups]
    return SweepResults(
        groups,
        _settings(groups),
        unfinished,
        names.index(plan["reference"]) if plan["reference"] in names else 0,
        plan["metric"],
        [found for split in plan["evaluate"] if (found := _read_split(directory, plan, split))],
    )


def _find_run(directory: SweepDirectory, point: str, seed: int) -> tuple[RunDirectory, str] | None:
    """Return a run that has begun, and why it has not finished; an empty text if it has."""
    run = directory.run(point, seed)
    if not run.config.is_file():
        return None
    state = read_run_state(directory.path, run_name(point, seed))
    return run, {"done": "", "failed": "failed", "pruned": "pruned"}.get(state or "", "unfinished")


def _settings(groups: list[RunGroup]) -> dict[str, list[object]]:
    found = differing_settings([group.runs[0].load_config() for group in groups])
    return {key: values for key, values in found.items() if key != "seed"}


def _read_split(
    directory: SweepDirectory, plan: dict[str, Any], split: str
) -> TranslatedSplit | None:
    found = {
        point: list(_read_translations(directory, plan, split, point)) for point in plan["points"]
    }
    found = {point: each for point, each in found.items() if each}
    if not found:
        return None
    runs = (directory.run(point, seed) for point in found for seed in plan["seeds"])
    run = next(run for run in runs if run.config.is_file())
    text = load_split(run.load_config().data, split, corpus_directory(run))
    return TranslatedSplit(split, text, list(found), list(found.values()))


def _read_translations(
    directory: SweepDirectory, plan: dict[str, Any], split: str, point: str
) -> Iterator[list[str]]:
    for seed in plan["seeds"]:
        path = directory.path / scores_name(split, point, seed) / TRANSLATIONS
        if path.is_file() and read_run_state(directory.path, run_name(point, seed)) == "done":
            text = read_small(path, _MAX_BYTES).decode(errors="replace")
            yield text.removesuffix("\n").split("\n")
