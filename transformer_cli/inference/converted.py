"""A trained model as CTranslate2 reads it: converted once, and kept in the user's cache.

CTranslate2 trusts what it reads: a changed file can crash it, or make it write other text. So no
conversion that came with a run is read, but those alone that this user's processes have made on
this machine. One is an artifact, named after the type of its weights and what it was made of, by
the sums of the bytes that are there.
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

from transformer_cli.artifact import Artifact, Record, record_files, write_record
from transformer_cli.config.choices import Quantization
from transformer_cli.errors import CheckpointError
from transformer_cli.files import remove_directory, remove_leftovers
from transformer_cli.packages import __version__, import_extra
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of
from transformer_cli.text.model_check import find_fault

FORMAT = 1
"""Of what ``write_model`` writes: raise it where the same weights are converted otherwise."""
MAX_BYTES = 2 * 2**30
"""Of all conversions that are kept together; the newest one is kept in any case."""

Engine = TypeVar("Engine")

SUMS = "sums.json"
_VOCABULARIES = {"shared_vocabulary.json", "target_vocabulary.json"}
_FILES = {"model.bin", "config.json", "source_vocabulary.json", *_VOCABULARIES}

# Temporary names tell processes apart, and not the threads of one.
_CONVERTING = Lock()


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
    # The manifest also changes where the weights do not, as a step is validated; and what it says
    # of them has to be true, or a run could claim to have the weights of another.
    made_of = {
        "format": str(FORMAT),
        "transformer_cli": __version__,
        "ctranslate2": _ctranslate2_version(),
        "weights": opened.checkpoint.hash_weights(),
        "tokenizer": opened.tokenizer_sum,
        "model": opened.config.model.model_dump_json(),
        "quantization": quantization,
    }

    def write(directory: Path) -> Record:
        from transformer_cli.inference.ctranslate2_spec import write_model  # imports torch

        write_model(load_weights_of(opened), quantization, directory)
        return Record(made_of=made_of)

    cache = _open_cache()
    kept = None if cache is None else cache / f"{quantization}-{_digest(made_of)}"
    if kept is not None and (verified_sums(kept) or _keep(kept, write)):
        with suppress(CheckpointError, OSError):
            before = kept.stat()
            engine = open_directory(kept)
            # A process that keeps another one may have removed it while it was read.
            if os.path.samestat(before, kept.stat()):
                with suppress(OSError):  # a cache that is read-only now
                    os.utime(kept)
                return engine
    with TemporaryDirectory() as directory:
        write(Path(directory))
        return open_directory(Path(directory))


def cache_directory() -> Path:
    """Return where conversions are kept; it need not be there."""
    if given := os.environ.get("TRANSFORMER_CLI_CACHE"):
        return Path(given) / "converted"
    from platformdirs import user_cache_path

    return user_cache_path("transformer-cli", appauthor=False) / "converted"


def write_sums(directory: Path) -> None:
    """Write the record of an exported model's files beside them."""
    write_record(directory / SUMS, Record(made_of={}, files=record_files(directory)))


def verified_sums(directory: Path) -> dict[str, str] | None:
    """Return the SHA-256 of a converted model's files; None: they are not as they were written."""
    model = Artifact(directory, Record, SUMS)
    try:
        # Not a pipe, a device or what lies elsewhere: the directory may have come from anywhere.
        present = {name for name in (SUMS, *_FILES) if (directory / name).is_file()}
        record = model.read() if SUMS in present else None
        if (
            record is None
            or not _VOCABULARIES & record.files.keys()
            or record.files.keys() != present - {SUMS}
            or "model.bin" not in present
            or model.find_damage(record, is_trusted=False)
        ):
            return None
    except OSError:
        return None
    return {name: file.sha256 for name, file in record.files.items()}


def check_usable(directory: Path, sums: dict[str, str]) -> None:
    """Use an exported model, which may be a stranger's, in a child process; remember if it works.

    Args:
        directory: of the model.
        sums: of its files, verified.

    Raises:
        CheckpointError: CTranslate2 cannot use it.
    """
    cache = _open_cache()
    made_of = {"ctranslate2": _ctranslate2_version(), **sums}
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


def _digest(made_of: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(made_of.items())).encode()).hexdigest()[:32]


def _open_cache() -> Path | None:
    """Return the directory of conversions, made if need be; None: nobody else's may be used."""
    cache = cache_directory()
    try:
        if not cache.is_absolute():  # there is no home directory
            return None
        cache.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (cache.parent, cache):
            path.mkdir(mode=0o700, exist_ok=True)
            stat = path.lstat()
            is_ours = sys.platform == "win32" or (
                stat.st_uid == os.geteuid() and not stat.st_mode & 0o022
            )
            if path.is_symlink() or not is_ours:
                return None
    except OSError:
        return None
    return cache


def _keep(kept: Path, write: Callable[[Path], Record]) -> bool:
    """Convert the model into ``kept``, and make room; return False if it cannot be kept.

    Several processes may do so at once: one's rename succeeds.
    """
    try:
        with _CONVERTING:
            if verified_sums(kept):  # another thread or process was faster
                return True
            remove_leftovers(kept.parent)
            if kept.is_dir():
                remove_directory(kept)  # it is damaged
            Artifact(kept, Record, SUMS).make(write)
    except OSError:
        return verified_sums(kept) is not None
    with suppress(OSError):  # another process makes room, too
        _make_room(kept)
    return True


def _make_room(newest: Path) -> None:
    """Remove the conversions that were not used for the longest time, but not the newest."""
    others = [
        path
        for path in newest.parent.iterdir()
        if path != newest and re.fullmatch(r"[a-z0-9_]+-[0-9a-f]{32}", path.name) and path.is_dir()
    ]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in (newest, *others):
        total += sum(file.stat().st_size for file in path.iterdir())
        if total > MAX_BYTES and path != newest:
            remove_directory(path)
