"""Overwrite a run, keeping the previous one until the new one has a checkpoint.

- ``previous/`` exists: it holds the previous run; the files beside it are the new run's. Once the
  new run has a checkpoint, ``previous/`` is deleted. Until then the previous run can be restored.
- ``previous-moving/`` exists: the previous run is being moved, in or out; all files in either place
  belong to it.

Each step is one rename, so that the next process can finish what a killed one began. A file in
these directories marks them as ours: a user's own ``previous/`` is left alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from transformer_cli.errors import (
    ConfigError,
    CorpusError,
    RunError,
    SuspectTextError,
    TokenizerError,
)
from transformer_cli.files import remove_directory, sync
from transformer_cli.runs.contents import (
    ASIDE_MARK,
    FILES,
    LOCK,
    MARK,
    MOVING,
    OWN,
    PREVIOUS,
    check_no_foreign_files,
    find_foreign_files,
    has_checkpoint,
)


def is_overwriting(run: Path) -> bool:
    """Return whether a previous run is set aside and the new one has no checkpoint yet."""
    return _holds_run(run / MOVING) or (_holds_run(run / PREVIOUS) and not has_checkpoint(run))


def _holds_run(directory: Path) -> bool:
    return _is_ours(directory) and any(_exists(directory / name) for name in OWN)


def _is_ours(directory: Path) -> bool:
    return (directory / ASIDE_MARK).is_file()


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def set_aside(run: Path) -> None:
    """Move a run into ``previous/``.

    Args:
        run: the run directory, locked; any earlier overwriting is finished.

    Raises:
        RunError: the run's directories hold files that transformer-cli has not written.
        OSError: it cannot be written.
    """
    check_set_aside_is_ours(run)
    check_no_foreign_files(run)
    present = [run / name for name in OWN if _exists(run / name)]
    if not present:
        return
    moving = run / MOVING
    moving.mkdir(exist_ok=True)
    (moving / ASIDE_MARK).touch()
    for path in present:
        path.rename(moving / path.name)
    sync(moving)
    sync(run)
    with suppress(FileNotFoundError):
        (run / PREVIOUS).rmdir()  # a user's, and empty: Windows would not rename onto it
    moving.rename(run / PREVIOUS)
    sync(run)


def finish_overwriting(run: Path) -> bool:
    """Finish overwriting: restore the previous run, or delete it if the new one has a checkpoint.

    Args:
        run: the run directory, locked.

    Returns:
        Whether the previous run was restored.

    Raises:
        RunError: it cannot be written, or foreign files are in the way.
    """
    was_overwriting = is_overwriting(run)
    if was_overwriting:
        try:
            _restore(run)
        except OSError as error:
            raise RunError(
                f"{error.filename or run}: cannot be written: {error.strerror or error}"
            ) from error
    else:
        discard_previous(run)
    _remove_if_empty(run / MOVING)
    return was_overwriting


@contextmanager
def finish_on_exit(run: Path, report_restored: Callable[[Path], None]) -> Iterator[None]:
    """Finish overwriting when the block ends; report if the previous run was restored."""
    try:
        yield
    finally:
        if finish_overwriting(run):
            report_restored(run)


@contextmanager
def undo_beginning(run: Path, existed: bool) -> Iterator[None]:
    """Remove a run that the block begins if its settings or its text turn out to be impossible.

    All of it stays if somebody has put other files there meanwhile.

    Args:
        run: the run directory, locked.
        existed: whether there was a directory before it was locked.
    """
    is_new = [path.name for path in run.iterdir()] == [LOCK]
    try:
        yield
    except SuspectTextError:  # insisted on, it is not to be prepared again
        raise
    except (ConfigError, CorpusError, TokenizerError):
        # The mark goes late, so that a run is known as one if the process dies meanwhile, and the
        # lock last: from then on, another process may begin a run.
        names = (*OWN, MARK, LOCK)
        if is_new and not _find_others(run, names):
            with suppress(OSError):  # Windows does not delete the lock, which is open
                for name in names:
                    _remove(run / name)
                if not existed:
                    run.rmdir()
        raise


def discard_previous(run: Path) -> None:
    """Delete ``previous/``, or keep all of it if it holds foreign files.

    Raises:
        RunError: it cannot be deleted.
    """
    previous = run / PREVIOUS
    if not _is_ours(previous) or _find_foreign_entries(previous):
        return
    try:
        remove_directory(previous)
    except OSError as error:
        raise RunError(f"{previous}: cannot be deleted: {error.strerror or error}") from error


def check_set_aside_is_ours(run: Path) -> None:
    """Check that ``previous/`` and ``previous-moving/`` hold only files of a run.

    Raises:
        RunError: one holds another file.
    """
    for directory in (run / PREVIOUS, run / MOVING):
        for path in _find_foreign_entries(directory):
            raise RunError(
                f"{path}: was not written by transformer-cli, and is in the way; move it elsewhere"
            )


def _restore(run: Path) -> None:
    previous, moving = run / PREVIOUS, run / MOVING
    if not _holds_run(moving):
        check_no_foreign_files(run)
        for name in OWN:
            _remove(run / name)
        _remove_if_empty(moving)
        previous.rename(moving)
    for name in OWN:
        if _exists(moving / name):
            (moving / name).rename(run / name)
    sync(run)


def _remove_if_empty(moving: Path) -> None:
    if not _holds_run(moving):
        if _is_ours(moving):
            (moving / ASIDE_MARK).unlink()
        with suppress(OSError):  # it does not exist, or holds foreign files
            moving.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and path.name not in FILES:
        remove_directory(path)
    else:
        path.unlink(missing_ok=True)


def _find_foreign_entries(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return [directory] if _exists(directory) else []
    return _find_others(directory, (*OWN, ASIDE_MARK) if _is_ours(directory) else ())


def _find_others(directory: Path, ours: tuple[str, ...]) -> list[Path]:
    others = [path for path in directory.iterdir() if path.name not in ours]
    return others or [*find_foreign_files(directory)]
