"""A trained model as CTranslate2 reads it: converted once, and kept in the user's cache.

CTranslate2 trusts what it reads: a changed file can crash it, or make it write other text. So no
conversion that came with a run is read, but those alone that this user's processes have made on
this machine. One is named after the type of its weights and what it was made of, by the sums of
the bytes that are there, and appears by one rename.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from transformer_cli.artifact import read_record, write_record
from transformer_cli.config.choices import Quantization
from transformer_cli.errors import CheckpointError
from transformer_cli.files import (
    remove_directory,
    remove_leftovers,
    sha256,
    whole_directory,
)
from transformer_cli.packages import __version__, import_extra
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of
from transformer_cli.text.model_check import find_fault

FORMAT = 1
"""Of what ``write_model`` writes: raise it where the same weights are converted otherwise."""
MOST_BYTES = 2 * 2**30
"""Of all conversions that are kept together; the newest one is kept in any case."""

Engine = TypeVar("Engine")

SUMS = "sums.json"
_VOCABULARIES = {"shared_vocabulary.json", "target_vocabulary.json"}
_FILES = {"model.bin", "config.json", "source_vocabulary.json", *_VOCABULARIES}

# Temporary names tell processes apart, and not the threads of one.
_CONVERTING = Lock()


class _Sums(BaseModel):
    """Schema of the file that has the SHA-256 of the others, by name."""

    model_config = ConfigDict(strict=True)

    files: dict[str, str]


def open_converted(
    opened: OpenedModel, quantization: Quantization, open_directory: Callable[[Path], Engine]
) -> Engine:
    """Open the converted model that is kept, or one that is made now.

    Where it cannot be kept, as on a disk that is read-only, it is made in a temporary directory.

    Args:
        opened: what is converted.
        quantization: type of the weights.
        open_directory: opens the directory of a converted model, and has read it when it returns.

    Raises:
        CheckpointError: the weights are damaged.
        MissingExtraError: CTranslate2 is not installed.
        OSError: there is no room for it.
    """
    name = f"{quantization}-{_key(opened)}"
    cache = _open_cache()
    if cache is not None and (is_intact(cache / name) or _keep(opened, quantization, cache / name)):
        with suppress(CheckpointError, OSError):
            before = (cache / name).stat()
            engine = open_directory(cache / name)
            # A process that keeps another one may have removed it while it was read.
            if os.path.samestat(before, (cache / name).stat()):
                with suppress(OSError):  # a cache that is read-only now
                    os.utime(cache / name)
                return engine
    with TemporaryDirectory() as directory:
        _write(opened, quantization, Path(directory))
        return open_directory(Path(directory))


def cache_directory() -> Path:
    """Return where conversions are kept; it need not be there."""
    if given := os.environ.get("TRANSFORMER_CLI_CACHE"):
        return Path(given) / "converted"
    from platformdirs import user_cache_path

    return user_cache_path("transformer-cli", appauthor=False) / "converted"


def write_sums(directory: Path) -> None:
    """Write the sums of a converted model's files beside them."""
    sums = {path.name: sha256(path) for path in directory.iterdir()}
    write_record(directory / SUMS, _Sums(files=sums))


def is_intact(directory: Path) -> bool:
    """Return whether all files of a converted model are as they were written."""
    return verified_sums(directory) is not None


def verified_sums(directory: Path) -> dict[str, str] | None:
    """Return the SHA-256 of a converted model's files; None: they are not as they were written."""
    try:
        # Not a pipe, a device or what lies elsewhere: the directory may have come from anywhere.
        present = {name for name in (SUMS, *_FILES) if (directory / name).is_file()}
        sums = read_record(directory / SUMS, _Sums) if SUMS in present else None
        if (
            sums is None
            or not _VOCABULARIES & sums.files.keys()
            or sums.files.keys() != present - {SUMS}
        ):
            return None
        found = {name: sha256(directory / name) for name in sums.files}
    except OSError:
        return None
    return found if found == sums.files and "model.bin" in found else None


def check_usable(directory: Path, sums: dict[str, str]) -> None:
    """Use an exported model, which may be a stranger's, in a child process; remember if it works.

    Args:
        directory: of the model.
        sums: of its files, verified.

    Raises:
        CheckpointError: CTranslate2 cannot use it.
    """
    cache = _open_cache()
    made_of = [_ctranslate2_version(), *(f"{name} {sums[name]}" for name in sorted(sums))]
    tried = None if cache is None else cache / f"tried-{_digest(made_of)}"
    if tried is not None and tried.is_file():
        return
    if fault := find_fault("ctranslate2", os.fsencode(directory)):
        raise CheckpointError(f"{directory}: {fault}; export it again")
    if tried is not None:
        with suppress(OSError):  # a cache that is read-only now
            tried.touch()


def _ctranslate2_version() -> str:
    return str(import_extra("ctranslate2", None, "CTranslate2's search").__version__)


def _digest(made_of: list[str]) -> str:
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:32]


def _key(opened: OpenedModel) -> str:
    # The manifest also changes where the weights do not, as a step is validated; and what it says
    # of them has to be true, or a run could claim to have the weights of another.
    made_of = [
        str(FORMAT),
        __version__,
        _ctranslate2_version(),
        opened.checkpoint.hash_weights(),
        opened.tokenizer_sum,
        opened.config.model.model_dump_json(),
    ]
    return _digest(made_of)


def _open_cache() -> Path | None:
    """Return the directory of conversions, made if need be; None: nobody else's may be used."""
    cache = cache_directory()
    try:
        if not cache.is_absolute():  # there is no home directory
            return None
        cache.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (cache.parent, cache):
            path.mkdir(mode=0o700, exist_ok=True)
            found = path.lstat()
            is_ours = sys.platform == "win32" or (
                found.st_uid == os.geteuid() and not found.st_mode & 0o022
            )
            if path.is_symlink() or not is_ours:
                return None
    except OSError:
        return None
    return cache


def _keep(opened: OpenedModel, quantization: Quantization, kept: Path) -> bool:
    """Convert the model into ``kept``, and make room; return False if it cannot be kept.

    Several processes may do so at once: one's rename succeeds.
    """
    try:
        with _CONVERTING:
            if is_intact(kept):  # another thread or process was faster
                return True
            remove_leftovers(kept.parent)
            if kept.is_dir():
                remove_directory(kept)  # it is damaged
            with whole_directory(kept) as temporary:
                _write(opened, quantization, temporary)
    except OSError:
        return is_intact(kept)
    with suppress(OSError):  # another process makes room, too
        _make_room(kept)
    return True


def _make_room(newest: Path) -> None:
    """Remove the conversions that were not used for the longest time, but not the newest."""
    others = (path for path in newest.parent.iterdir() if path != newest and _is_kept(path))
    used = [(path.stat().st_mtime, path) for path in others]
    total = 0
    for path in (newest, *(path for _, path in sorted(used, reverse=True))):
        total += sum(file.stat().st_size for file in path.iterdir())
        if total > MOST_BYTES and path != newest:
            remove_directory(path)


def _is_kept(path: Path) -> bool:
    return re.fullmatch(r"[a-z0-9_]+-[0-9a-f]{32}", path.name) is not None and path.is_dir()


def _write(opened: OpenedModel, quantization: Quantization, directory: Path) -> None:
    from transformer_cli.inference.ctranslate2_spec import write_model  # imports torch

    write_model(load_weights_of(opened), quantization, directory)
    write_sums(directory)
