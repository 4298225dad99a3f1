"""Attempt directories: where a task's result is made, one for each generation of its lease."""

import glob
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_cli.errors import RunInUseError
from transformer_cli.files import TEMPORARY_MARK
from transformer_cli.runs.directory import LOCK, MARK, RunDirectory
from transformer_cli.runs.lock import check_unlocked
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.lease import Lease
from transformer_cli.sweeps.tasks import Task

_SHARED = ("tokenizer", "encoded", "corpus")
_COPY_TRIALS = 3
_PATIENCE_SECONDS = 10.0


def open_attempt(sweep: SweepDirectory, task: Task, lease: Lease) -> Path:
    """Return the attempt directory of a lease; it goes on from the attempt before, if there is one.

    Raises:
        RunInUseError: a process of a dead worker is still writing there.
    """
    attempt = _attempt(sweep, task, lease.generation)
    attempt.parent.mkdir(parents=True, exist_ok=True)
    for generation in range(lease.generation - 1, 0, -1):
        earlier = _attempt(sweep, task, generation)
        if earlier.is_dir():
            if Lease(lease.task, generation).has_ended():
                _wait_until_unlocked(earlier)
                earlier.rename(attempt)
            else:
                _copy(earlier, attempt)
            return attempt
    with _filling(attempt) as new:
        if task.data is not None:
            _share_data(sweep.path / task.data, new)
    return attempt


@contextmanager
def _filling(attempt: Path) -> Iterator[Path]:
    """Give a directory to fill, which becomes the attempt as a whole."""
    new = attempt.with_name(f".{attempt.name}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    yield new
    new.rename(attempt)


def finish(sweep: SweepDirectory, task: Task, attempt: Path) -> None:
    """Make an attempt the task's result, unless another worker was faster; remove the others."""
    result = task.result(sweep)
    result.parent.mkdir(parents=True, exist_ok=True)
    if task.trains and not result.is_dir():
        # Scores of an earlier run of this name, which somebody has deleted.
        for scores in sweep.path.glob(f"scores/*/{glob.escape(task.point)}/seed-{task.seed}"):
            shutil.rmtree(scores)
    try:
        attempt.rename(result)
    except OSError:
        if not result.is_dir():
            raise
    name = glob.escape(attempt.name.rpartition(".")[0])
    for each in [*attempt.parent.glob(f"{name}.*"), *attempt.parent.glob(f".{name}.*")]:
        shutil.rmtree(each, ignore_errors=True)


def newest_attempt(sweep: SweepDirectory, task: str) -> Path | None:
    """Return the attempt directory of a task that was made last, if there is one."""
    path = sweep.attempts / task
    found = path.parent.glob(f"{glob.escape(path.name)}.*")
    made = [(int(each.suffix[1:]), each) for each in found if each.suffix[1:].isdecimal()]
    return max(made)[1] if made else None


def _attempt(sweep: SweepDirectory, task: Task, generation: int) -> Path:
    path = sweep.attempts / task.name
    return path.with_name(f"{path.name}.{generation}")


def _share_data(data: Path, run: Path) -> None:
    """Give a new run prepared data, by hard links where the file system has them."""
    shutil.copyfile(data / MARK, run / MARK)  # so that the directory is known as a run
    for name in _SHARED:
        if (data / name).is_dir():
            shutil.copytree(data / name, run / name, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _copy(earlier: Path, attempt: Path) -> None:
    """Copy an attempt whose process may have been stopped, and may still go on writing."""
    ignored = shutil.ignore_patterns(LOCK, f"*{TEMPORARY_MARK}*")
    for _ in range(_COPY_TRIALS):
        try:
            with _filling(attempt) as new:
                shutil.copytree(earlier, new, ignore=ignored, dirs_exist_ok=True)
            return
        except OSError:  # files have gone meanwhile; shutil.Error is one too
            continue
    raise RunInUseError(
        f"{earlier}: is being written by a worker that has lost its lease; wait for it, or kill it"
    )


def _wait_until_unlocked(run: Path) -> None:
    """Wait for the process of a dead worker, which ends at once; see ../child.py."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (run / LOCK).exists():
        try:
            check_unlocked(RunDirectory(run))
            return
        except RunInUseError:
            if time.monotonic() > deadline:
                raise
