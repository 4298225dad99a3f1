"""A directory of translations, one of each input file: which of them are whole, and of what.

Its record says how all of them are made, and of each one which bytes it is made of and has. The
record is there before the first translation. Inputs and finished files are found here.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from transformer_cli.base.artifact import read_record, write_record
from transformer_cli.base.errors import InputError, UsageError
from transformer_cli.base.files import sha256
from transformer_cli.base.locations import is_url, locate, versions
from transformer_cli.base.writing import (
    PARTIAL,
    PARTIAL_JOURNALS,
    TEMPORARY_END,
    temporary_path,
)
from transformer_cli.runs.directory import lock_directory

RECORD = ".translations.json"
_UNFINISHED = re.compile(
    rf"(?P<name>.+)({'|'.join(map(re.escape, (PARTIAL, *PARTIAL_JOURNALS)))}"
    rf"|{TEMPORARY_END})",
    re.DOTALL,
)
"""Matches the name of an unfinished file."""
_ADVICE = "name a new or an empty directory"
# Of many files the record is long. What a crash loses of it is translated again.
_SECONDS_BETWEEN_WRITES = 2.0
_MAX_WRITING = 0.05  # share of the time that may be spent on it
_LONGEST_NAME = 255  # in bytes, on most file systems
_MAX_RECORD_BYTES = 1 << 28  # of some 700,000 files; the directory is the user's own


class FileState(BaseModel):
    """An input and its translation, as they were when that was finished."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input_key: str | None
    """Changes with the input; None: it was so new that it could change unnoticed."""
    input_sha256: str
    output_key: str
    output_sha256: str

    def is_seen(self, input_key: str | None, output_key: str) -> bool:
        """Return whether both files are as they were, by what tells it without reading them."""
        is_same = self.input_key is not None and self.input_key == input_key
        return is_same and self.output_key == output_key

    def is_of(self, input_sha256: str, output: Path) -> bool:
        """Return whether both files have their bytes; InputError: the translation was edited."""
        if not file_key(output):
            return False
        if self.output_sha256 != sha256(output):
            raise InputError(
                f"{output}: was changed after it was translated, and is left as it is; move it "
                "away to translate its source again"
            )
        return self.input_sha256 == input_sha256


def file_key(path: Path) -> str:
    """Return size and time of a file, or an object's key; an empty text: there is none.

    What replaces a translation has the same bytes, so its time is never too new to be compared.
    """
    return _file_keys([path])[0]


def _file_keys(paths: Sequence[Path]) -> list[str]:
    elsewhere = iter(versions([path for path in paths if is_url(path)]))
    return [(next(elsewhere) or "") if is_url(path) else _stat_key(path) for path in paths]


def _stat_key(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return ""
    return f"{stat.st_size} {stat.st_mtime_ns}"


def find_inputs(given: Path) -> list[Path]:
    """Return the files in a directory, or that match a pattern; UsageError: there are none."""
    paths: Iterable[Path]
    if given.is_dir():
        problem, paths = "is a directory without files; name another one", given.iterdir()
    else:
        problem, paths = "no file matches; name a directory, or a pattern in quotes", _match(given)
    found = sorted(
        path for path in paths if not path.name.startswith(".") and (is_url(path) or path.is_file())
    )
    if not found:
        raise UsageError(f"-i {given}: {problem}")
    return found


def _match(pattern: Path) -> Iterable[Path]:
    if is_url(pattern):
        store: Any = locate(pattern)
        return [*store.glob(pattern)]
    below = str(pattern.relative_to(pattern.anchor)).replace("[", "[[]")
    try:
        return list(Path(pattern.anchor).glob(below))
    except ValueError as error:  # as in a**, in older Pythons
        raise UsageError(f"-i {pattern}: {error}") from error


def check_directory(path: Path, inputs: Collection[Path]) -> None:
    """Check, before long work, that translations of these files can be written into ``path``."""
    if str(path) == "-":
        raise UsageError("-i names many files; name the directory of their translations with -o")
    # A worker's process may have more digits, and its host a longer name.
    added = len(os.fsencode(temporary_path(Path("a")).name)) + 20
    for each in inputs:
        if len(os.fsencode(each.name)) > _LONGEST_NAME - added and not is_url(path):
            raise UsageError(f"{each}: its name is too long to add .partial and more; shorten it")
    parents = {each.parent for each in inputs}
    if is_url(path):
        store: Any = locate(path)
        store.check_writable(path)
        is_input, found = path in parents, {each.name for each in store.glob(path / "*")}
    elif path.is_dir():
        local = (parent for parent in parents if not is_url(parent))
        is_input, found = any(map(path.samefile, local)), {each.name for each in path.iterdir()}
    else:
        if path.exists():
            raise UsageError(f"-o {path}: is a file, but -i names many; {_ADVICE}")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"-o {path}: there is no directory {path.parent}; make it first")
        return
    if is_input:
        raise UsageError(f"-o {path}: is the directory of the files that -i reads; {_ADVICE}")
    others = sorted(name for name in found if not name.startswith("."))
    if others and RECORD not in found:
        raise UsageError(
            f"-o {path}: {others[0]} is there, and no record of earlier translations; {_ADVICE}"
        )


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    settings: dict[str, str]
    files: dict[str, FileState] = {}
    begun: list[str] = []
    """Names of translations that were begun: those not in ``files`` may be whole, or not there."""


class OutputDirectory:
    """A directory that this process has locked; ``open_directory`` makes it."""

    def __init__(self, path: Path, record: _Record) -> None:
        self._path, self._record = path, record
        self._write_at = 0.0

    def state(self, name: str) -> FileState | None:
        """Return what is recorded of a translation."""
        return self._record.files.get(name)

    def find_whole(self, files: Iterable[tuple[Path, Path]]) -> set[Path]:
        """Return the outputs that are as recorded, as are their inputs, without reading either."""
        known = [pair for pair in files if self.state(pair[1].name)]
        inputs, outputs = [input_ for input_, _ in known], [output for _, output in known]
        keys = zip(outputs, versions(inputs), _file_keys(outputs), strict=True)
        return {
            output
            for output, input_key, output_key in keys
            if self._record.files[output.name].is_seen(input_key, output_key)
        }

    def begin(self, outputs: Sequence[Path]) -> None:
        """Record which translations will be made; UsageError: someone else has put one there."""
        earlier = {*self._record.files, *self._record.begun}
        others = [path for path in outputs if path.name not in earlier]
        if not others:
            return
        for path, key in zip(others, _file_keys(others), strict=True):
            if key:
                raise UsageError(
                    f"{path}: is there, and is not of an earlier translation; move it away"
                )
        self._record.begun = sorted({*self._record.begun, *(path.name for path in others)})
        self.write()

    def note(self, name: str, state: FileState) -> None:
        """Record that a translation is whole."""
        self._record.files[name] = state
        if time.monotonic() > self._write_at:
            self.write()

    def write(self) -> None:
        """Bring the record to disk."""
        begin = time.monotonic()
        write_record(self._path / RECORD, self._record)
        end = time.monotonic()
        self._write_at = end + max(_SECONDS_BETWEEN_WRITES, (end - begin) / _MAX_WRITING)

    def remove_leftovers(self) -> None:
        """Remove what lost workers have begun, by its name, and of what is whole what was begun.

        A lost worker that goes on finds no file to rename.
        """
        if is_url(self._path):  # nothing is begun in a store
            return
        known = self._record.files
        for path in self._path.iterdir():
            begun = _UNFINISHED.fullmatch(path.name)
            if begun is None or path.name in known or not path.is_file():
                continue
            if begun["process"] or begun["name"] in known:
                with suppress(PermissionError):  # Windows: a lost worker has it open
                    path.unlink(missing_ok=True)


@contextmanager
def open_directory(path: Path, settings: Mapping[str, str]) -> Iterator[OutputDirectory]:
    """Open a directory of translations, made if it is not there, in which nobody else works.

    ``settings`` are what all translations depend on beside their inputs, by name.

    Raises:
        UsageError: those that are there depend on other settings, or nobody knows on which.
        RunError: another process works there, or it cannot be written.
    """
    # Stores have no locks. Two who translate into one write the same bytes twice.
    with nullcontext() if is_url(path) else lock_directory(path):
        record = _read_record(path, settings)
        directory = OutputDirectory(path, record)
        directory.write()
        try:
            yield directory
        finally:
            directory.write()
            directory.remove_leftovers()


def _read_record(path: Path, settings: Mapping[str, str]) -> _Record:
    """Return the record of a directory, or a new one."""
    file = path / RECORD
    if not file_key(file):
        return _Record(settings=dict(settings))
    record = read_record(file, _Record, _MAX_RECORD_BYTES)
    if record is None:
        raise UsageError(f"{file}: damaged, or of another version of transformer-cli; {_ADVICE}")
    for key in sorted({*record.settings, *settings}):
        was, now = record.settings.get(key, "none"), settings.get(key, "none")
        if was != now:
            raise UsageError(
                f"-o {path}: its translations have {key} {was[:12]}, not {now[:12]}; {_ADVICE}"
            )
    return record
