"""Trained runs to compare, alone or in groups that differ in their seeds only."""

import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.differences import as_yaml, differing_settings
from transformer_cli.config.schema import Config, TrainingConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.errors import RunError, UsageError
from transformer_cli.inference.engine import ignore
from transformer_cli.inference.lines import LongLine
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.packages import import_extra
from transformer_cli.runs.checkpoint import Checkpoint, State, find_checkpoint
from transformer_cli.runs.directory import SWEEP_MARK, SWEEP_RUNS, RunDirectory, is_run
from transformer_cli.runs.groups import RunGroup, read_run_state, read_sweep_plan, run_name
from transformer_cli.runs.metrics_log import environment_of_training, read_records
from transformer_cli.text.tokenizer import fingerprint

_SEED = "seed"
_MAY_DIFFER = (_SEED, "training.keep_last", "training.save_every", "data.test.")
"""Within a group. Weights do not depend on them, but for the seed; and test texts are compared."""


@dataclass(frozen=True)
class ComparedRun:
    """A run to compare, and the checkpoint that stands for it."""

    name: str
    """As much of the path's end as no other run's path ends in."""
    directory: RunDirectory
    config: Config
    """The run's settings, with the search that it is compared by."""
    checkpoint: Path
    step: int
    """Optimizer steps up to the checkpoint."""
    steps: int
    """Optimizer steps of the whole training, up to now."""
    seconds: float
    """Time of the whole training, up to now."""
    trained_with: dict[str, object] | None
    """Device, precision, versions up to the checkpoint; see ``environment_of_training``."""
    is_finished: bool = True
    """Whether no step and no validation of the training is left."""

    def translate(
        self,
        text: ParallelText,
        computing: ComputeOptions,
        progress: Callable[[int], object] = ignore,
        on_long_line: Callable[[LongLine], object] = ignore,
    ) -> list[str]:
        """Return its translations, one a line, by a model that is loaded for them only."""
        translator = load_translator(self.directory, str(self.checkpoint), computing)
        translator = translator.with_search(self.config.decoding.beam_size)
        return translator.translate(
            text.src, progress=progress, on_long_line=on_long_line, tags=text.tags
        )


@dataclass(frozen=True)
class ComparedGroup:
    """Runs of one setting, to compare with other groups."""

    name: str
    runs: list[ComparedRun]
    """In the order of their seeds."""


# --- runs -----------------------------------------------------------------------------------------


def open_runs(
    paths: Sequence[Path], checkpoint: str, beam_size: int | None = None
) -> list[ComparedRun]:
    """Look at each run, before any long work.

    ``checkpoint`` is 'best', 'last' or 'average'. Without a beam size each searches as its settings
    say.
    """
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UsageError(f"{path} is named twice; name each run once")
        seen.add(path.resolve())
    return [
        _open(name, RunDirectory(path), checkpoint, beam_size)
        for name, path in zip(distinct_names(paths), paths, strict=True)
    ]


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return as much of each path's end as no other path ends in, at least its last part."""
    parts = [path.absolute().parts for path in paths]

    def name(own: tuple[str, ...]) -> str:
        length = 1
        while length < len(own) and [path[-length:] for path in parts].count(own[-length:]) > 1:
            length += 1
        return str(Path(*own[-length:]))

    return [name(own) for own in parts]


def _open(name: str, run: RunDirectory, which: str, beam_size: int | None) -> ComparedRun:
    run.check_not_hub_model()
    config = run.load_config()
    if beam_size is not None:
        decoding = config.decoding.model_copy(update={"beam_size": beam_size})
        config = config.model_copy(update={"decoding": decoding})
    path = find_checkpoint(run.checkpoints, which)
    tokenizer = fingerprint(run.tokenizer)
    step = Checkpoint.open(path, tokenizer).load_state().step
    last = Checkpoint.open(find_checkpoint(run.checkpoints, "last"), tokenizer).load_state()
    return ComparedRun(
        name,
        run,
        config,
        path,
        step,
        last.step,
        last.seconds,
        environment_of_training(read_records(run.metrics), step),
        _is_finished(config.training, last),
    )


def _is_finished(config: TrainingConfig, state: State) -> bool:
    """Return whether a state is the last one, as ``Session.is_finished`` does of an open run."""
    is_trained = (
        state.epoch >= config.epochs
        or (config.max_steps is not None and state.step >= config.max_steps)
        or (config.patience is not None and state.bad_validations >= config.patience)
    )
    return is_trained and not state.unvalidated


# --- groups ---------------------------------------------------------------------------------------


def find_groups(paths: Sequence[Path]) -> list[RunGroup]:
    """Find the runs that arguments of a command line name.

    Each is a run; a pattern of runs, as ``runs/a-*``; a directory of runs, which is a group; or the
    directory of a sweep, which is a group for each of its points.
    """
    groups = [group for path in paths for group in _find(path)]
    names = distinct_names([path for path, _ in groups])
    return [
        RunGroup(name, tuple(map(RunDirectory, runs)))
        for name, (_, runs) in zip(names, groups, strict=True)
    ]


def _find(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each group's path, which names it, and those of its runs."""
    if not path.exists() and glob.has_magic(str(path)):
        # As a shell does it: `..` is followed, and hidden directories are not found.
        fitting = map(Path, glob.glob(str(path)))  # noqa: PTH207
        runs = sorted(run for run in fitting if run.is_dir())
        if not runs:
            raise UsageError(f"{path}: no directory fits this pattern; name runs that are there")
        yield path.parent if path.name == "*" else path, runs
    elif (path / SWEEP_MARK).is_file():
        groups = [(point, runs) for point, runs in _find_points(path) if runs]
        if not groups:
            raise RunError(f"{path}: this sweep has no finished run yet; run it first")
        yield from groups
    else:
        # What is neither a run nor holds one is refused where it is opened.
        directories = sorted(path.iterdir()) if path.is_dir() and not is_run(path) else []
        yield path, [run for run in directories if run.is_dir() and is_run(run)] or [path]


def _find_points(sweep: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield a sweep's points with their finished runs, its reference first."""
    plan = read_sweep_plan(sweep)
    for point in sorted(plan["points"], key=lambda point: bool(point != plan["reference"])):
        runs = [run_name(point, seed) for seed in plan["seeds"]]
        finished = [sweep / run for run in runs if read_run_state(sweep, run) == "done"]
        yield sweep / SWEEP_RUNS / point, finished


def group_runs(groups: Sequence[RunGroup], runs: Sequence[ComparedRun]) -> list[ComparedGroup]:
    """Put opened runs into their groups, and check that these can be compared.

    Returns:
        Nothing if each run is alone.

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
        for key, (old, new) in _settings_but([first, run], _MAY_DIFFER).items():
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


def settings_of_groups(groups: Sequence[ComparedGroup]) -> dict[str, list[object]]:
    """Return the settings that differ, by dotted key, one value a group."""
    return _settings_but([group.runs[0] for group in groups], (_SEED,))


def _settings_but(
    runs: Sequence[ComparedRun], left_out: tuple[str, ...]
) -> dict[str, list[object]]:
    differing = differing_settings([run.config for run in runs])
    return {key: values for key, values in differing.items() if not key.startswith(left_out)}
