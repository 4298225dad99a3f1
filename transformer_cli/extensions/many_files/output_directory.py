"""An output directory with one translation per input file, and with a record of them.

The record contains the settings that affect all translations and, for each file, the checksums of
input and translation. It is written before the first translation. This module also finds inputs.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import read_record, write_record
from transformer_cli.base.errors import UsageError
from transformer_cli.base.writing import PARTIAL, PARTIAL_JOURNALS, remove_leftovers, temporary_path
from transformer_cli.runs.directory import lock_directory

RECORD = ".translations.json"
_ADVICE = "name a new or an empty directory"
# With many files, the record is long. If a crash loses part of it, the files' bytes are compared.
_SECONDS_BETWEEN_WRITES = 2.0
_MAX_WRITING = 0.05  # share of the time that writing it may take
_LONGEST_NAME = 255  # in bytes, on most file systems
_MAX_RECORD_BYTES = 1 << 28  # about 700,000 files; the directory belongs to the user


class FileState(BaseModel):
    """Checksums of an input and of its translation, from when the translation was finished."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input_sha256: str
    output_sha256: str


def find_inputs(given: Path) -> list[Path]:
    """Return the files that are in a directory or match a pattern; raise UsageError if none are."""
    if given.is_dir():
        problem, paths = "is a directory without files; name another one", list(given.iterdir())
    else:
        problem = "no file matches; name a directory, or a pattern in quotes"
        below = str(given.relative_to(given.anchor)).replace("[", "[[]")
        try:
            paths = list(Path(given.anchor).glob(below))
        except ValueError as error:  # older versions of Python refuse patterns such as a**
            raise UsageError(f"-i {given}: {error}") from error
    found = sorted(path for path in paths if not path.name.startswith(".") and path.is_file())
    if not found:
        raise UsageError(f"-i {given}: {problem}")
    return found


def check_directory(path: Path, inputs: Collection[Path]) -> None:
    """Raise UsageError if translations of these files cannot be written into directory ``path``."""
    if str(path) == "-":
        raise UsageError("-i names many files; name a directory for their translations with -o")
    # A worker's process ID may have more digits, and its host a longer name.
    added = len(os.fsencode(temporary_path(Path("a")).name)) + 20
    for each in inputs:
        if len(os.fsencode(each.name)) > _LONGEST_NAME - added:
            raise UsageError(f"{each}: its name is too long to add suffixes to; shorten it")
    if not path.is_dir():
        if path.exists():
            raise UsageError(f"-o {path}: is a file, but -i names many files; {_ADVICE}")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"-o {path}: there is no directory {path.parent}; create it first")
        return
    if any(map(path.samefile, {each.parent for each in inputs})):
        raise UsageError(f"-o {path}: -i reads the files of this directory; {_ADVICE}")
    others = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    if others and not (path / RECORD).exists():
        raise UsageError(
            f"-o {path}: contains {others[0]}, but no record of translations; {_ADVICE}"
        )


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    settings: dict[str, str]
    files: dict[str, FileState | None] = {}  # by filename; None: started, perhaps not complete


class OutputDirectory:
    """An output directory that this process has locked; use ``open_directory`` to create one."""

    def __init__(self, path: Path, record: _Record) -> None:
        self._path, self._record = path, record
        self._write_at = 0.0

    def begin(self, output: Path) -> FileState | None:
        """Record that a translation starts; return the ``FileState`` of an earlier one, or None.

        Raise UsageError if ``output`` exists, but has no entry in the record.
        """
        files = self._record.files
        if output.name not in files and output.exists():
            raise UsageError(
                f"{output}: exists, but no record says it is a translation; move it away"
            )
        return files.setdefault(output.name, None)

    def note(self, name: str, state: FileState) -> None:
        """Record that the translation with this filename is complete."""
        self._record.files[name] = state
        if time.monotonic() > self._write_at:
            self.write()

    def write(self) -> None:
        """Write the record to disk."""
        begin = time.monotonic()
        write_record(self._path / RECORD, self._record)
        end = time.monotonic()
        self._write_at = end + max(_SECONDS_BETWEEN_WRITES, (end - begin) / _MAX_WRITING)

    def remove_leftovers(self) -> None:
        """Remove partial files that lost workers left, and partial files of complete translations.

        If a lost worker continues after all, it finds no file to rename.
        """
        remove_leftovers(self._path, ours=["*"])
        whole = [name for name, state in self._record.files.items() if state]
        for name in {path.name for path in self._path.iterdir()}.intersection(
            f"{name}{ending}" for name in whole for ending in (PARTIAL, *PARTIAL_JOURNALS)
        ):
            (self._path / name).unlink(missing_ok=True)


@contextmanager
def open_directory(path: Path, settings: Mapping[str, str]) -> Iterator[OutputDirectory]:
    """Open a directory of translations for this process alone; create it if it does not exist.

    ``settings`` contains, by name, everything besides the inputs that affects the translations.
    Raise UsageError if the existing translations have other settings or the record is damaged, and
    RunError if another process is using the directory or it cannot be written.
    """
    with lock_directory(path):
        directory = OutputDirectory(path, _read_record(path, settings))
        directory.write()
        try:
            yield directory
        finally:
            directory.write()
            directory.remove_leftovers()


def _read_record(path: Path, settings: Mapping[str, str]) -> _Record:
    """Return the record in a directory, or a new one if there is none."""
    file = path / RECORD
    if not file.exists():
        return _Record(settings=dict(settings))
    record = read_record(file, _Record, _MAX_RECORD_BYTES)
    if record is None:
        raise UsageError(f"{file}: damaged, or from another transformer-cli version; {_ADVICE}")
    for key in sorted({*record.settings, *settings}):
        was, now = record.settings.get(key, "none"), settings.get(key, "none")
        if was != now:
            raise UsageError(
                f"-o {path}: its translations have {key} {was[:12]}, not {now[:12]}; {_ADVICE}"
            )
    return record
