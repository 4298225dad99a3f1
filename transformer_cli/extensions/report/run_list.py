"""Find runs, and summarize each: model, steps, best score, state and size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from transformer_cli.base.errors import RunError, TransformerCliError
from transformer_cli.config.choices import METRICS
from transformer_cli.evaluation.best_checkpoint import read_validated_by
from transformer_cli.runs.checkpoint import MODEL, Checkpoint, find_checkpoint
from transformer_cli.runs.directory import MARK, RunDirectory, check_unlocked, is_run


@dataclass(frozen=True)
class RunSummary:
    """What ``runs`` prints about a run; unknown values are None."""

    run: str
    state: str
    """'in use' (another process has locked it), 'finished', 'stopped', 'prepared' or 'damaged'."""
    problem: str = ""  # why it is damaged
    languages: str | None = None
    parameters: int | None = None
    steps: int = 0
    epochs: int = 0
    seconds: float = 0.0  # spent on training
    metric: str | None = None  # the key of the metric that chooses the best checkpoint
    score: float | None = None  # the best validation's
    bytes: int = 0  # of all files


def find_runs(paths: Sequence[Path]) -> list[RunDirectory]:
    """Return the runs at and below these paths; raise RunError if there is none."""
    found: dict[Path, RunDirectory] = {}
    for path in paths:
        if not path.is_dir():
            raise RunError(f"{path}: no such directory; name a run, or a directory that holds runs")
        marked = [path] if (path / MARK).is_file() else [each.parent for each in path.rglob(MARK)]
        if not marked:
            raise RunError(f"{path}: has no runs; make one with: transformer-cli train CONFIG")
        found |= {each: RunDirectory(each) for each in sorted(marked)}
    return list(found.values())


def summarize(run: RunDirectory) -> RunSummary:
    """Return a run's summary; if it cannot be read, the summary says why."""
    name = run.path.as_posix()
    size = sum(_sizes(run.path))
    try:
        is_run(run.path)
        config = run.load_config()
        languages = f"{config.data.src_lang}-{config.data.tgt_lang}"
        if not run.has_checkpoints:
            state = "in use" if _is_locked(run) else "prepared"
            return RunSummary(name, state, languages=languages, bytes=size)
        path = find_checkpoint(run.checkpoints, "last")
        last = Checkpoint.open(path).load_state()
        parameters = _count_parameters(path / MODEL)
    except TransformerCliError as error:
        return RunSummary(name, "damaged", str(error), bytes=size)
    state = "finished" if last.is_final(config.training) else "stopped"
    validated = None if last.best_step is None else read_validated_by(run)
    return RunSummary(
        name,
        "in use" if _is_locked(run) else state,
        languages=languages,
        parameters=parameters,
        steps=last.step,
        epochs=last.epoch,
        seconds=last.seconds,
        metric=validated and validated.select,
        score=validated and METRICS[validated.select].rank(last.best_rank),
        bytes=size,
    )


def _sizes(directory: Path) -> Iterator[int]:
    for path in directory.rglob("*"):
        try:
            yield path.lstat().st_size
        except OSError:  # a training may delete it
            continue


def _is_locked(run: RunDirectory) -> bool:
    try:
        check_unlocked(run)
    except RunError:
        return True
    return False


def _count_parameters(path: Path) -> int | None:
    """Return the number of weights, without reading them; None if the file is damaged."""
    try:
        with safe_open(path, "np") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
            return sum(map(math.prod, shapes))
    except (OSError, SafetensorError):
        return None
