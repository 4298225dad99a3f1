"""A file of translations that appears when it is whole, and that can be gone on with until then.

Beside FILE stand, as long as it is being written, FILE.partial, the translations up to now, and
FILE.partial.json, the journal. A chunk of lines is brought safely to disk, then the journal, which
says how far the translations are to be trusted and what they are translations of. Whatever ends the
process, one that goes on cuts the file where the journal says, and the rest comes out as it would
have done.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Annotated

from filelock import lock_descriptor
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from transformer_cli.compression import compressor
from transformer_cli.errors import OutputError, UsageError
from transformer_cli.files import is_at, open_checked, read_small, sync

_READ_BYTES = 1 << 20
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Journal(BaseModel):
    """How much is done, and of what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: int = 1
    lines: _Count
    bytes: _Count
    input: str
    """SHA-256 of the source lines, a line feed after each."""
    output: str
    """SHA-256 of the translations' bytes."""
    terms: dict[str, str]


class Output:
    """Translations on their way into a file; ``output_file`` makes it.

    Attributes:
        begun: whether ``begin`` or ``resume`` has made the file this process' own.
        kept: lines that are safely on disk, and that a later process can go on from.
    """

    def __init__(
        self,
        file: FileIO,
        partial: Path,
        terms: Mapping[str, str],
        chunk_lines: int,
        keep: bool,
        compress: Callable[[bytes], bytes],
    ) -> None:
        self.begun = False
        self.kept = 0
        self._file = file
        self._partial = partial
        self._terms = dict(terms)
        self._chunk_lines = chunk_lines
        self._keep = keep
        self._compress = compress
        self._input, self._output = hashlib.sha256(), hashlib.sha256()
        self._bytes = 0
        self._waiting: list[bytes] = []

    def begin(self) -> None:
        """Start with nothing."""
        self.begun = True
        self._write_journal()
        self._file.seek(0)
        self._file.truncate()

    def resume(self, lines: Iterator[str]) -> None:
        """Start where an earlier process stopped, taking what it has translated from ``lines``.

        Raises:
            UsageError: what is there is of something else.
        """
        if not self._file.seek(0, os.SEEK_END):
            self.begin()
            return
        journal = self._read_journal()
        for key in sorted({*journal.terms, *self._terms}):
            was, now = journal.terms.get(key, "none"), self._terms.get(key, "none")
            if was != now:
                raise self._unfit(f"{key} was {was[:12]}, now {now[:12]}")
        done = 0
        for line in islice(lines, journal.lines):
            self._input.update(line.encode() + b"\n")
            done += 1
        if done < journal.lines:
            raise self._unfit(f"{journal.lines:,} lines are done, but the input has {done:,}")
        if self._input.hexdigest() != journal.input:
            raise self._unfit(f"the input's first {done:,} lines are not what they were")
        self._file.seek(0)
        while data := self._file.read(min(_READ_BYTES, journal.bytes - self._bytes)):
            self._output.update(data)
            self._bytes += len(data)
        if self._output.hexdigest() != journal.output:
            raise self._unfit("the translations are not as they were written")
        self._file.truncate()
        self.kept = done
        self.begun = True

    def write(self, source: str, translation: str) -> None:
        """Add a line; a chunk of them goes to disk at a time."""
        self._input.update(source.encode() + b"\n")
        self._waiting.append(translation.encode() + b"\n")
        if len(self._waiting) == self._chunk_lines:
            self.commit()
            if self._keep:
                self.kept += self._chunk_lines
                self._write_journal()

    def commit(self) -> None:
        """Bring all translations safely to disk: of a compressed file, as a member of it."""
        data = b"".join(self._waiting)
        if data or not self._bytes:  # a compressed file of nothing has a member too
            data = self._compress(data)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot_write(self._partial, error) from error
        self._output.update(data)
        self._bytes += len(data)
        self._waiting = []

    def _write_journal(self) -> None:
        journal = _Journal(
            lines=self.kept,
            bytes=self._bytes,
            input=self._input.hexdigest(),
            output=self._output.hexdigest(),
            terms=self._terms,
        )
        # There is one writer only, so that a name which needs no tidying up will do.
        path, new = _journal(self._partial), _journal(self._partial, ".new")
        try:
            new.unlink(missing_ok=True)  # it might be a link
            new.write_bytes(journal.model_dump_json(indent=1).encode() + b"\n")
            sync(new)
            new.replace(path)
            sync(path.parent)
        except OSError as error:
            raise _cannot_write(path, error) from error

    def _read_journal(self) -> _Journal:
        path = _journal(self._partial)
        try:
            journal = _Journal.model_validate_json(read_small(path))
        except (OSError, ValidationError) as error:
            raise self._unfit(f"{path} cannot be read") from error
        if journal.format != 1:
            raise self._unfit(f"{path} is of another version of transformer-cli")
        return journal

    def _unfit(self, reason: str) -> UsageError:
        return UsageError(f"{self._partial}: {reason}")


@contextmanager
def output_file(
    path: Path, terms: Mapping[str, str], chunk_lines: int, keep: bool
) -> Iterator[Output]:
    """Write ``path``, which appears when the block ends well; call ``begin`` or ``resume``.

    If the block raises, an older ``path`` is as it was.

    Args:
        path: a file, or nothing yet; its directory must exist. What a link points to is replaced.
        terms: what the translations depend on beside the input, each by its name.
        chunk_lines: lines that are brought to disk together.
        keep: whether there is going on from finished chunks: not if the input is a pipe, say.

    Raises:
        OutputError: it cannot be written, or another process is writing it.
    """
    compress = compressor(path)
    path = path.resolve()
    partial = path.with_name(f"{path.name}.partial")
    with _open_locked(partial) as file:
        if file.seek(0, os.SEEK_END) and not _journal(partial).exists():
            raise OutputError(
                f"{partial}: in the way, and not by transformer-cli; move it, or write elsewhere"
            )
        output = Output(file, partial, terms, chunk_lines, keep, compress)
        try:
            yield output
            output.commit()
            _close_to_move(file)
            try:
                partial.replace(path)
            except OSError as error:
                raise _cannot_write(path, error) from error
        except BaseException:
            # What this process was not fit to go on with is another's.
            if not keep or (output.begun and not output.kept):
                _close_to_move(file)
                _remove_journal(partial)
                partial.unlink(missing_ok=True)
            raise
        _remove_journal(partial)
        sync(path.parent)


@contextmanager
def _open_locked(partial: Path) -> Iterator[FileIO]:
    """Open the file of unfinished translations, and keep other processes from doing so."""
    while True:
        try:
            file = FileIO(partial, "r+", opener=_create)
        except OSError as error:
            raise _cannot_write(partial, error) from error
        with file:
            with suppress(OSError):  # a file system without locks
                if not lock_descriptor(file.fileno(), blocking=False):
                    raise OutputError(
                        f"{partial}: another process is writing it; wait for it, or write elsewhere"
                    )
            # Between opening and locking, another process may have finished the file.
            if is_at(file, partial):
                yield file
                return


def _create(path: str, flags: int) -> int:
    return open_checked(path, flags | os.O_CREAT)


def _close_to_move(file: FileIO) -> None:
    # Windows neither renames nor deletes open files. Elsewhere the lock is kept until it is done.
    if sys.platform == "win32":
        file.close()


def _journal(partial: Path, new: str = "") -> Path:
    return partial.with_name(f"{partial.name}.json{new}")


def _remove_journal(partial: Path) -> None:
    for new in (".new", ""):
        _journal(partial, new).unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be written: {error.strerror or error}")
