"""Models converted for CTranslate2: those exported, and those kept in the user's cache.

CTranslate2 trusts what it reads: a changed file can crash it, or make it write other text. So no
conversion that came with a run is read, but those alone that this user's processes have made on
this machine, and an exported model only once it was verified and tried. A conversion is an
artifact, named after the type of its weights and what it was made of.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from transformer_cli.base.artifact import Artifact, Record, sum_json
from transformer_cli.base.errors import CheckpointError
from transformer_cli.base.files import open_cache
from transformer_cli.base.packages import __version__, import_extra
from transformer_cli.base.writing import remove_directory, remove_leftovers
from transformer_cli.config.choices import Quantization
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of

FORMAT = 2
"""Of what ``write_model`` writes: raise it where the same weights are converted otherwise."""
MAX_BYTES = 2 * 2**30
"""Of all conversions that are kept together; the newest one is kept in any case."""
SUMS = "sums.json"
_VOCABULARIES = {"shared_vocabulary.json", "target_vocabulary.json"}
_FILES = {"model.bin", "config.json", "source_vocabulary.json", *_VOCABULARIES}
# Temporary names tell processes apart, and not the threads of one.
_CONVERTING = Lock()


def open_converted(
    opened: OpenedModel,
    quantization: Quantization,
    open_directory: Callable[[Path], CTranslate2Engine],
) -> CTranslate2Engine:
    """Open the conversion of a model that is kept, or one that is made now.

    Where it cannot be kept, as on a disk that is read-only, it is made in a temporary directory.
    ``open_directory`` has read a directory when it returns. The caller verifies that the weights
    are those of the checkpoint's manifest. OSError: there is no room for it.
    """
    made_of = {
        "format": str(FORMAT),
        "transformer_cli": __version__,
        "ctranslate2": import_extra("ctranslate2", None, "CTranslate2's search").__version__,
        "weights": opened.checkpoint.files.get(MODEL, ""),
        "tokenizer": opened.tokenizer_sum,
        "model": opened.config.model.fingerprint(),
        "quantization": quantization,
    }

    def write(directory: Path) -> Record:
        from transformer_cli.extensions.ctranslate2 import spec  # imports torch

        spec.write_model(load_weights_of(opened), quantization, directory)
        return Record(made_of=made_of)

    cache = open_cache("converted")
    kept = None if cache is None else cache / f"{quantization}-{sum_json(made_of)[:32]}"
    if kept is not None and (verified_sums(kept, compares=False) or _keep(kept, write)):
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
    total = 0
    for path in (newest, *sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)):
        total += sum(file.stat().st_size for file in path.iterdir())
        if total > MAX_BYTES and path != newest:
            remove_directory(path)


def verified_sums(directory: Path, compares: bool = True) -> dict[str, str] | None:
    """Return the SHA-256 of a converted model's files; None: they are not as they were written.

    ``compares``: whether sums are compared, or sizes only, as in a directory of this user.
    """
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
            or model.find_damage(record, compares_sums=compares)
        ):
            return None
    except OSError:
        return None
    return {name: file.sha256 for name, file in record.files.items()}
