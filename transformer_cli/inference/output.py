"""The output file of ``translate``, which a later process can complete after an interruption.

FILE appears only when it is complete. Until then, there are two other files in its directory:
FILE.partial, which has the translations so far and is locked, and FILE.partial.json, the journal.
The program writes each chunk of lines safely to disk, and then the journal, which says how many
lines are valid and what they are translations of. However the process ends, the next process
truncates FILE.partial to the valid lines and goes on. The result is the same as without a break.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from transformer_cli.base.errors import OutputError
from transformer_cli.base.files import is_at, read_small
from transformer_cli.base.locations import open_checked
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import compressor
from transformer_cli.base.writing import PARTIAL, claim, replace_file, sync

_Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Journal(BaseModel):
    """The journal: how many lines are done, from which input, and with which settings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    lines: _Count
    bytes: _Count
    input: str
    """SHA-256 of the source lines that are translated, each with a line feed."""
    output: str
    """SHA-256 of the bytes of the translations."""
    terms: dict[str, str]


class Output:
    """A file that translations are written to; ``output_file`` opens one that can be resumed.

    Attributes:
        kept: number of lines that are safely on disk, so that a later process can skip them.
    """

    kept = 0

    def __init__(self, file: FileIO, path: Path, compress: Callable[[bytes], bytes]) -> None:
        self._file, self._path, self._compress = file, path, compress
        self._output, self._bytes = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written to disk so far."""
        return self._output.hexdigest()

    def write(self, sources: Sequence[str], lines: Sequence[str]) -> None:
        """Write a chunk of lines safely to disk."""
        self.commit("\n".join([*lines, ""]).encode())

    def finish(self) -> None:
        """If nothing was written, make a compressed file valid by compressing an empty string."""
        if not self._bytes:
            self.commit(b"")

    def commit(self, data: bytes) -> None:
        """Write bytes safely to disk; a compressed file gets them as a member of their own."""
        data = self._compress(data)
        with naming_output_errors(self._path):
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            os.fsync(self._file.fileno())
        self._output.update(data)
        self._bytes += len(data)


class _ResumableOutput(Output):
    """An output with a journal of finished lines."""

    def resume(self, terms: Mapping[str, str], sources: Iterator[str] | None) -> None:
        """Go on where an earlier process stopped, or log why not; see ``output_file``."""
        self._terms, self._keeps = dict(terms), sources is not None
        self._input = hashlib.sha256()
        if self._file.seek(0, os.SEEK_END) and (problem := self._resume(sources)):
            log(f"{self._path}: {problem}; starting again")

    def begin(self) -> None:
        """Start with an empty file and a journal of no lines."""
        self._write_journal()
        self._file.seek(0)
        self._file.truncate()

    def write(self, sources: Sequence[str], lines: Sequence[str]) -> None:
        """Write a chunk of lines, and then the journal, safely to disk."""
        super().write(sources, lines)
        self._input.update("\n".join([*sources, ""]).encode())
        if self._keeps:
            self.kept += len(lines)
            self._write_journal()

    def _resume(self, sources: Iterator[str] | None) -> str | None:
        """Go on where an earlier process stopped; return None, or why that is impossible."""
        if sources is None:
            return "cannot resume with further outputs, or with input from a pipe"
        path = _journal(self._path)
        try:
            journal = _Journal.model_validate_json(read_small(path))
        except (OSError, ValidationError):
            return f"{path.name} cannot be read"
        for key in sorted({*journal.terms, *self._terms}):
            was, now = journal.terms.get(key, "none"), self._terms.get(key, "none")
            if was != now:
                return f"{key} was {was[:12]}, now {now[:12]}"
        done, source_lines = 0, hashlib.sha256()
        for line in islice(sources, journal.lines):
            source_lines.update(line.encode() + b"\n")
            done += 1
        if done < journal.lines:
            return f"{journal.lines:,} lines are done, but the input has {done:,}"
        if source_lines.hexdigest() != journal.input:
            return f"the first {done:,} lines of the input have changed"
        if self._file.tell() >= journal.bytes:  # at its end
            self._file.truncate(journal.bytes)
        self._file.seek(0)
        translations = hashlib.file_digest(self._file, "sha256")
        if translations.hexdigest() != journal.output:
            return "the translations have changed since they were written"
        self._input, self._output, self._bytes = source_lines, translations, journal.bytes
        self.kept = done
        return None

    def _write_journal(self) -> None:
        journal = _Journal(
            lines=self.kept,
            bytes=self._bytes,
            input=self._input.hexdigest(),
            output=self.sha256,
            terms=self._terms,
        )
        # There is only one writer, so a fixed name is enough, and leaves nothing to clean up.
        path, new = _journal(self._path), _journal(self._path, ".new")
        with naming_output_errors(path):
            new.unlink(missing_ok=True)  # it might be a link
            new.write_bytes(journal.model_dump_json(indent=1).encode() + b"\n")
            sync(new)
            new.replace(path)
            sync(path.parent)


@contextmanager
def output_file(
    path: Path, terms: Mapping[str, str], sources: Iterator[str] | None
) -> Iterator[Output]:
    """Yield the output for ``path``, resumed if possible; ``path`` appears when the block succeeds.

    If the block raises an error, an existing ``path`` is not changed; see ``replace_file``.

    Args:
        path: the file, which may not exist yet, in a directory that does. If it is a link, the
            file that it points to is replaced.
        terms: settings and versions that the translations depend on, keyed by name.
        sources: the lines of the input, to check those that are already translated; None if they
            cannot be read again, so that nothing can be resumed, now or later.

    Raises:
        OutputError: the file cannot be written, or another process is writing it.
    """
    compress = compressor(path)
    path = path.resolve()
    partial = path.with_name(path.name + PARTIAL)
    with claim(path), _open_partial(partial, path) as file:
        if file.seek(0, os.SEEK_END) and not _journal(partial).exists():
            raise OutputError(
                f"{partial}: in the way, but not written by transformer-cli; move or delete it"
            )
        output = _ResumableOutput(file, partial, compress)
        output.resume(terms, sources)
        try:
            if not output.kept:
                output.begin()
            yield output
            output.finish()
            with naming_output_errors(path):
                replace_file(file, partial, path)
        except BaseException:
            if not partial.exists() or not is_at(file, partial):  # someone has moved it
                _remove_journal(partial)
            elif not output.kept:
                if sys.platform == "win32":
                    file.close()  # Windows deletes no open file; elsewhere the lock must stay
                _remove_journal(partial)
                partial.unlink(missing_ok=True)
            raise
        _remove_journal(partial)
        sync(path.parent)


def _open_partial(partial: Path, path: Path) -> FileIO:
    """Open the file of unfinished output, create it if needed, and lock it."""
    from filelock import lock_descriptor  # the import takes 5 ms, which --help saves

    while True:
        with naming_output_errors(partial):
            file = FileIO(
                partial, "r+", opener=lambda path, flags: open_checked(path, flags | os.O_CREAT)
            )
        with suppress(OSError):  # the file system may not support locks
            if not lock_descriptor(file.fileno(), blocking=False):
                file.close()
                raise OutputError(
                    f"{path}: another process is writing it; wait, or choose another output file"
                )
        if is_at(file, partial):
            return file
        file.close()  # between opening and locking, another process has finished it


@contextmanager
def naming_output_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into an OutputError that names the file."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def _journal(partial: Path, new: str = "") -> Path:
    return partial.with_name(f"{partial.name}.json{new}")


def _remove_journal(partial: Path) -> None:
    for new in (".new", ""):
        _journal(partial, new).unlink(missing_ok=True)
