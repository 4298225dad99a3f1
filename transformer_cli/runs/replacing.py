"""Starting a run anew so that the earlier one is kept until the new one has a checkpoint.

- ``previous/`` is there: what is in it is the earlier run, what is beside it is the new one. Once
  the new one has a checkpoint it stands, and ``previous/`` is deleted; until then the earlier one
  counts.
- ``previous-moving/`` is there: the earlier run is on its way, in or out, and all that is in either
  place is of it.

Each step is one rename, so that whoever comes after a process that was killed knows what to do.
"""

from contextlib import suppress
from pathlib import Path

from transformer_cli.errors import RunError
from transformer_cli.files import remove_directory, sync
from transformer_cli.runs.contents import (
    FILES,
    MOVING,
    OWN,
    PREVIOUS,
    check_no_foreign_files,
    foreign,
    has_checkpoint,
)


def is_replacing(run: Path) -> bool:
    """Whether an earlier run is set aside and still counts."""
    return _holds_run(run / MOVING) or (_holds_run(run / PREVIOUS) and not has_checkpoint(run))


def _holds_run(directory: Path) -> bool:
    return any(_exists(directory / name) for name in OWN)


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def set_aside(run: Path) -> None:
    """Move a run into ``previous/``, so that another can be made in its place.

    Args:
        run: the directory, ``settle``d and locked.

    Raises:
        RunError: there are files in the run's directories that are not the run's.
        OSError: it cannot be written.
    """
    check_previous_is_ours(run)
    check_no_foreign_files(run)
    present = [run / name for name in OWN if _exists(run / name)]
    if not present:
        return
    moving = run / MOVING
    moving.mkdir(exist_ok=True)
    for path in present:
        path.rename(moving / path.name)
    sync(moving)
    sync(run)
    moving.rename(run / PREVIOUS)
    sync(run)


def settle(run: Path) -> bool:
    """Finish what a replacement has begun: put the earlier run back, or let the new one stand.

    Args:
        run: the directory, locked.

    Returns:
        Whether the earlier run was put back.

    Raises:
        RunError: it cannot be written, or there are files in the way that are not the run's.
    """
    is_back = is_replacing(run)
    if is_back:
        try:
            _put_back(run)
        except OSError as error:
            raise RunError(
                f"{error.filename or run}: cannot be written: {error.strerror or error}"
            ) from error
    else:
        discard_previous(run)
    with suppress(OSError):  # it is not there, or has something in it that is not ours
        (run / MOVING).rmdir()
    return is_back


def discard_previous(run: Path) -> None:
    """Delete the run that was set aside, unless somebody has put files of theirs beside it.

    Raises:
        RunError: it cannot be deleted.
    """
    previous = run / PREVIOUS
    if not previous.is_dir() or _rest(previous):
        return
    try:
        remove_directory(previous)
    except OSError as error:
        raise RunError(f"{previous}: cannot be deleted: {error.strerror or error}") from error


def check_previous_is_ours(run: Path) -> None:
    """Make sure that nobody has put anything of theirs beside the run that was set aside.

    Raises:
        RunError: somebody has.
    """
    for directory in (run / PREVIOUS, run / MOVING):
        for path in _rest(directory):
            raise RunError(
                f"{path}: was not written by transformer-cli, and is in the way; move it elsewhere"
            )


def _put_back(run: Path) -> None:
    previous, moving = run / PREVIOUS, run / MOVING
    if not _holds_run(moving):
        check_no_foreign_files(run)
        for name in OWN:
            _remove(run / name)
        previous.rename(moving)
    for name in OWN:
        if _exists(moving / name):
            (moving / name).rename(run / name)
    sync(run)


def _remove(path: Path) -> None:
    if path.is_dir() and path.name not in FILES:
        remove_directory(path)
    else:
        path.unlink(missing_ok=True)


def _rest(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    others = [path for path in directory.iterdir() if path.name not in OWN]
    return [*others, *foreign(directory)]
