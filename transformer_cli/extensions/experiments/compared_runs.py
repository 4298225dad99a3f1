"""Find what ``compare`` needs: runs, groups of runs that differ only in the seed, and texts."""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from transformer_cli.base.errors import CheckpointError, CorpusError, RunError, UsageError
from transformer_cli.base.packages import import_extra
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.differences import as_yaml, differences
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import check_has_splits, default_split, load_split, open_kind
from transformer_cli.extensions.experiments.sweep import SweepDirectory
from transformer_cli.runs.checkpoint import Checkpoint, find_checkpoint
from transformer_cli.runs.directory import RunDirectory, is_run
from transformer_cli.text.tokenizer import fingerprint

Kind = Literal["runs", "groups"]


@dataclass(frozen=True)
class ComparedRun:
    """A run to compare, and the checkpoint to use."""

    name: str  # the shortest end of its path that no other run's path has
    directory: RunDirectory
    config: Config  # the run's settings, with the search to use
    checkpoint: Path
    step: int  # optimizer steps up to the checkpoint
    steps: int  # optimizer steps of the whole training so far
    seconds: float  # duration of the whole training so far
    is_finished: bool = True  # whether no step and no validation is left


@dataclass(frozen=True)
class ComparedGroup:
    """Runs with the same settings, ordered by seed, to compare with other groups."""

    name: str
    runs: list[ComparedRun]


# --- runs -----------------------------------------------------------------------------------------


def open_runs(
    paths: Sequence[Path], checkpoint: str, beam_size: int | None = None
) -> list[ComparedRun]:
    """Open all runs, to find errors early; if ``beam_size`` is None, each config's own is used."""
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
    """Return each path's shortest trailing part that no other path has, such as ``a/seed-1``."""
    names = []
    parts = [path.absolute().parts for path in paths]
    for own in parts:
        length = 1
        while length < len(own) and [path[-length:] for path in parts].count(own[-length:]) > 1:
            length += 1
        names.append(str(Path(*own[-length:])))
    return names


def _open(name: str, run: RunDirectory, which: str, beam_size: int | None) -> ComparedRun:
    run.check_not_exported()
    config = run.load_config()
    decoding = config.decoding.changed({"beam_size": beam_size})
    config = config.model_copy(update={"decoding": decoding})
    path = find_checkpoint(run.checkpoints, which)
    tokenizer = fingerprint(run.tokenizer)
    step = Checkpoint.open(path, tokenizer).load_state().step
    last = Checkpoint.open(find_checkpoint(run.checkpoints, "last"), tokenizer).load_state()
    return ComparedRun(
        name, run, config, path, step, last.step, last.seconds, last.is_final(config.training)
    )


# --- groups ---------------------------------------------------------------------------------------


def open_groups(
    arguments: Sequence[Path], checkpoint: str, beam_size: int | None = None
) -> tuple[list[ComparedGroup], Kind]:
    """Open groups of runs; return them, and 'groups', or 'runs' if each group is a single run.

    Each argument is a run; a pattern such as ``runs/a-*`` or a directory of runs, which makes one
    group; or the directory of a sweep, which makes one group per variation of its config.
    """
    found = [group for path in arguments for group in _find(path)]
    paths = [run for _, runs in found for run in runs]
    if len(paths) == 1:
        RunDirectory(paths[0]).load_config()  # raises an error if it is not a run
        raise UsageError(
            f"{paths[0]} is a single run; name two or more, "
            f"or use: transformer-cli evaluate {paths[0]}"
        )
    try:
        opened = open_runs(paths, checkpoint, beam_size)
    except (CheckpointError, RunError) as error:
        if len(paths) == len(found):
            raise
        hint = "a directory or pattern stands for all its runs, so name the ones to compare instead"
        raise type(error)(f"{error}; {hint}") from error
    if len(paths) == len(found):
        return [ComparedGroup(run.name, [run]) for run in opened], "runs"
    import_extra("scipy.special", "sweep", "statistics over seeds")
    rest = iter(opened)
    groups = []
    for name, (_, runs) in zip(distinct_names([path for path, _ in found]), found, strict=True):
        members = sorted((next(rest) for _ in runs), key=lambda run: run.config.seed)
        _check_group(members)
        groups.append(ComparedGroup(name, members))
    return groups, "groups"


def _find(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each group's path and its runs' paths; in a sweep, the reference group is first."""
    if not path.exists() and glob.has_magic(str(path)):
        # Like a shell: follow `..`, and do not find hidden directories.
        matches = map(Path, glob.glob(str(path)))  # noqa: PTH207
        runs = sorted(run for run in matches if run.is_dir())
        if not runs:
            raise UsageError(f"{path}: no directory matches this pattern; name existing runs")
        yield path.parent if path.name == "*" else path, runs
    elif (sweep := SweepDirectory(path)).mark.is_file():
        finished = sweep.find_finished()
        if not finished:
            raise RunError(f"{path}: this sweep has no finished run yet; run it first")
        for point, found in finished.items():
            yield sweep.point(point), [run.path for run in found]
    else:
        # A directory that is not a run and contains no run is refused when it is opened.
        directories = sorted(path.iterdir()) if path.is_dir() and not is_run(path) else []
        yield path, [run for run in directories if run.is_dir() and is_run(run)] or [path]


def _check_group(runs: Sequence[ComparedRun]) -> None:
    """Check that runs differ only in the seed; if there are several, all must have finished."""
    first = runs[0]
    for before, run in pairwise(runs):
        if before.config.seed == run.config.seed:
            raise UsageError(
                f"{before.directory.path} and {run.directory.path}: both have seed "
                f"{run.config.seed}; a group must have one run per seed"
            )
        for each in differences(first.config, run.config):
            if not each.may_differ:
                old, new = map(as_yaml, (each.old, each.new))
                raise UsageError(
                    f"{first.directory.path} and {run.directory.path}: {each.key} is {old} and "
                    f"{new}; a group's runs may differ only in the seed"
                )
    for run in runs:
        if len(runs) > 1 and not run.is_finished:
            raise RunError(
                f"{run.directory.path}: its training has not finished (step {run.steps:,}); "
                "resume it with train, or name only finished runs"
            )


# --- text -----------------------------------------------------------------------------------------


def load_texts(
    runs: Sequence[ComparedRun], splits: Sequence[str]
) -> list[tuple[str, ParallelText]]:
    """Return (name, text) for each split that is named in ``splits``.

    Each name is a split that all runs have, or RUN:NAME for a split of any run with the same
    languages. The default is the first test split, or else val, of the first run that has text.
    """
    texts = []
    for split in dict.fromkeys(splits or [_default_split(runs)]):
        is_of_all = ":" not in split or any(split in _split_names(run) for run in runs)
        load = load_common_text if is_of_all else _load_text_of_run
        texts.append((split, load(runs, split)))
    return texts


def _split_names(run: ComparedRun) -> list[str]:
    return open_kind(run.config.data).split_names()


def _default_split(runs: Sequence[ComparedRun]) -> str:
    """Return the default split, as RUN:NAME if some runs are imported models without text."""
    with_text = [run for run in runs if _split_names(run)]
    first = (with_text or runs)[0]
    check_has_splits(
        first.config.data, first.directory.path, "name another run's text with --split RUN:NAME"
    )
    name = default_split(first.config.data)
    return name if len(with_text) == len(runs) else f"{first.directory.path}:{name}"


def _load_text_of_run(runs: Sequence[ComparedRun], split: str) -> ParallelText:
    """Return the text of RUN:NAME; RUN and NAME may contain colons, e.g. in Windows paths."""
    colons = [place for place in range(1, len(split) - 1) if split[place] == ":"]
    candidates = [(RunDirectory(Path(split[:at])), split[at + 1 :]) for at in reversed(colons)]
    if not candidates:
        raise UsageError(f"--split {split}: expected RUN:NAME, a run and one of its splits")
    owner, name = next((place for place in candidates if _has_split(*place)), candidates[0])
    data = owner.load_config().data
    for run in runs:
        if _languages(data) != _languages(run.config.data):
            raise UsageError(
                f"--split {split}: its languages are {_languages(data)}, but "
                f"{run.directory.path} translates {_languages(run.config.data)}"
            )
    return _load_text(owner, data, name)


def _has_split(run: RunDirectory, name: str) -> bool:
    try:
        return name in open_kind(run.load_config().data).split_names()
    except RunError:  # it is not a run directory
        return False


def _languages(data: DataConfig) -> str:
    return f"{data.src_lang}-{data.tgt_lang}"


def load_common_text(runs: Sequence[ComparedRun], name: str) -> ParallelText:
    """Return the text of a split, which must be the same in all runs."""
    owners = [run for run in runs if name in _split_names(run)]
    lacking = [run for run in runs if run not in owners]
    if owners and lacking:
        raise CorpusError(
            f"{lacking[0].directory.path}: data.kind {lacking[0].config.data.kind} has no split "
            f"'{name}'; --split {owners[0].directory.path}:{name} compares all runs on it"
        )
    first, *others = runs
    text = _load_text(first.directory, first.config.data, name)
    for other in others:
        other_text = _load_text(other.directory, other.config.data, name)
        if difference := _difference(first, text, other, other_text):
            raise UsageError(
                f"{first.directory.path} and {other.directory.path}: split '{name}' is not the "
                f"same in both ({difference}), so scores cannot be compared; use --split "
                "RUN:NAME to score all runs on one run's text"
            )
    return text


def _load_text(run: RunDirectory, data: DataConfig, split: str) -> ParallelText:
    try:
        return load_split(data, split, run.text_place)
    except CorpusError as error:  # it names a split or a line, which the other runs have too
        raise type(error)(f"{run.path}: {error}") from error


def _difference(
    first: ComparedRun, text: ParallelText, other: ComparedRun, other_text: ParallelText
) -> str | None:
    """Describe how two runs' texts differ; return None if they do not."""
    languages = [_languages(run.config.data) for run in (first, other)]
    if languages[0] != languages[1]:
        return f"languages {languages[0]} and {languages[1]}"
    if len(text) != len(other_text):
        return f"{len(text):,} and {len(other_text):,} sentences"
    lines = enumerate(zip(text.pairs(), other_text.pairs(), strict=True), start=1)
    return next((f"line {number} differs" for number, (one, two) in lines if one != two), None)
