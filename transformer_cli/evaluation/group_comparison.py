"""Groups of trained runs side by side: which runs they are, and what is said of them."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.differences import as_yaml, differing_settings
from transformer_cli.errors import RunError, UsageError
from transformer_cli.evaluation.comparison import ComparedRun, distinct_names
from transformer_cli.evaluation.group_scores import MetricComparison
from transformer_cli.evaluation.metrics import USUAL, Metrics
from transformer_cli.evaluation.seed_statistics import compare_groups
from transformer_cli.packages import import_extra
from transformer_cli.runs.directory import SWEEP_MARK, SWEEP_RUNS, RunDirectory, is_run
from transformer_cli.runs.groups import RunGroup, read_run_state, read_sweep_plan, run_name

_SEED = "seed"
_MAY_DIFFER = (_SEED, "training.keep_last", "training.save_every", "data.test.")
"""Within a group. Weights do not depend on them, but for the seed; and test texts are compared."""


@dataclass(frozen=True)
class ComparedGroup:
    """Runs of one setting, to compare with other groups."""

    name: str
    runs: list[ComparedRun]
    """In the order of their seeds."""


@dataclass(frozen=True)
class GroupComparison:
    """What there is to say about groups, in their order."""

    bleu: MetricComparison
    bleu_lc: MetricComparison | None
    """None: the target language's script has no case."""
    chrf: MetricComparison
    settings: dict[str, list[object]]
    """Those that differ, by dotted key, one value a group; see ``differing_settings``."""


def find_groups(paths: Sequence[Path]) -> list[RunGroup]:
    """Find the runs that arguments of a command line name.

    Args:
        paths: each a run; a pattern of runs, as ``runs/a-*``; a directory of runs, which is a
            group; or the directory of a sweep, which is a group for each of its points.

    Raises:
        UsageError: nothing fits a pattern.
        RunError: a sweep has no run yet, or a run is of a later version.
    """
    found = [each for path in paths for each in _find(path)]
    names = distinct_names([path for path, _ in found])
    return [
        RunGroup(name, tuple(map(RunDirectory, runs)))
        for name, (_, runs) in zip(names, found, strict=True)
    ]


def _find(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each group's path, which names it, and those of its runs."""
    if not path.exists() and glob.has_magic(str(path)):
        # As a shell does it: `..` is followed, and hidden directories are not found.
        found = map(Path, glob.glob(str(path)))  # noqa: PTH207
        runs = sorted(each for each in found if each.is_dir())
        if not runs:
            raise UsageError(f"{path}: no directory fits this pattern; name runs that are there")
        yield path.parent if path.name == "*" else path, runs
    elif (path / SWEEP_MARK).is_file():
        groups = list(_find_points(path))
        if not any(runs for _, runs in groups):
            raise RunError(f"{path}: this sweep has no finished run yet; run it first")
        yield from ((point, runs) for point, runs in groups if runs)
    else:
        # What is neither a run nor holds one is refused where it is opened.
        yield path, [path] if is_run(path) else _runs_below(path) or [path]


def _find_points(sweep: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a sweep's points with their finished runs, its reference first."""
    plan = read_sweep_plan(sweep)
    for point in sorted(plan["points"], key=lambda point: bool(point != plan["reference"])):
        runs = [run_name(point, seed) for seed in plan["seeds"]]
        finished = [sweep / run for run in runs if read_run_state(sweep, run) == "done"]
        yield sweep / SWEEP_RUNS / point, finished


def _runs_below(path: Path) -> list[Path]:
    return [each for each in _directories(path) if is_run(each)]


def _directories(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir()) if path.is_dir() else []


def group_runs(groups: Sequence[RunGroup], runs: Sequence[ComparedRun]) -> list[ComparedGroup]:
    """Put opened runs into their groups, and check that these can be compared.

    Args:
        groups: as they were named.
        runs: all of theirs, in that order.

    Returns:
        Nothing if each run is alone: such are compared by ``comparison.compare``.

    Raises:
        UsageError: a group's runs differ in more than the seed, or two have the same seed.
        RunError: the training of a group's run has not finished.
        MissingExtraError: scipy is not installed.
    """
    if len(groups) == len(runs):
        return []
    import_extra("scipy.special", "sweep", "statistics over seeds")
    rest = iter(runs)
    compared = [
        ComparedGroup(
            group.name, sorted((next(rest) for _ in group.runs), key=lambda run: run.config.seed)
        )
        for group in groups
    ]
    for group in compared:
        if len(group.runs) > 1:
            _check_group(group)
    return compared


def _check_group(group: ComparedGroup) -> None:
    first = group.runs[0]
    for before, run in zip(group.runs, group.runs[1:], strict=False):
        if before.config.seed == run.config.seed:
            raise UsageError(
                f"{before.directory.path} and {run.directory.path}: both have seed "
                f"{run.config.seed}; a group has one run of each seed"
            )
        differing = _differing_settings([first, run], _MAY_DIFFER)
        for key, (old, new) in differing.items():
            raise UsageError(
                f"{first.directory.path} and {run.directory.path}: {key} is {as_yaml(old)} and "
                f"{as_yaml(new)}; a group's runs differ in nothing but the seed"
            )
    for run in group.runs:
        if not run.is_finished:
            raise RunError(
                f"{run.directory.path}: its training has not finished (step {run.steps:,}); "
                "go on with train, or name the finished runs only"
            )


def _differing_settings(
    runs: Sequence[ComparedRun], but: tuple[str, ...]
) -> Mapping[str, list[object]]:
    found = differing_settings([run.config for run in runs])
    return {key: values for key, values in found.items() if not key.startswith(but)}


def compare(
    groups: Sequence[ComparedGroup],
    translations: Mapping[Path, Sequence[str]],
    references: Sequence[str],
    metrics: Metrics = USUAL,
) -> GroupComparison:
    """Score groups, and test each one's difference from the first one.

    Args:
        groups: at least one.
        translations: by the run's path: one a sentence.
        references: as many raw reference lines.
        metrics: those of the target language.
    """
    by_group = [[translations[run.directory.path] for run in group.runs] for group in groups]
    found = {each.metric: each for each in compare_groups(by_group, references, metrics=metrics)}
    return GroupComparison(
        found["bleu"],
        found.get("bleu_lc"),
        found["chrf"],
        settings=dict(_differing_settings([group.runs[0] for group in groups], (_SEED,))),
    )
