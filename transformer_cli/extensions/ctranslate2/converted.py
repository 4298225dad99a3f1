"""Models of runs, converted for CTranslate2 and kept in the user's cache.

CTranslate2 does not check its files: a changed file can crash it or change translations. So we only
read conversions that this user made on this machine, never any that came with a run. A conversion
is a directory, named by the type of the weights and a checksum of the inputs.
"""

import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from transformer_cli.base.artifact import Artifact, Record, sum_json
from transformer_cli.base.errors import CheckpointError
from transformer_cli.base.files import open_cache
from transformer_cli.base.packages import __version__, import_extra
from transformer_cli.base.writing import remove_directory, remove_leftovers
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine, CTranslate2Translator
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of, open_trained_model

FORMAT = 2
"""The version of the files that ``write_model`` writes; increase it if the conversion changes."""
MAX_BYTES = 2 * 2**30
"""The maximum total size of kept conversions, in bytes; the newest one is always kept."""
SUMS = "sums.json"
# Temporary names differ between processes, but not between threads.
_CONVERTING = Lock()


def load_run(run: RunDirectory, checkpoint: str, options: ComputeOptions) -> CTranslate2Translator:
    """Open the cached conversion of a run's model; if there is none, convert the model first."""
    opened = open_trained_model(run, checkpoint)
    config, tokenizers = opened.config, opened.tokenizers
    with ThreadPoolExecutor(max_workers=1) as beside:
        # Verify the weights' checksum in the manifest, or a run could claim another run's weights.
        verified = beside.submit(opened.checkpoint.verify_file, MODEL)
        engine = _open_converted(opened, options)
        verified.result()
    return CTranslate2Translator(engine, tokenizers, config, config.decoding, checkpoint=opened.sum)


def _open_converted(opened: OpenedModel, options: ComputeOptions) -> CTranslate2Engine:
    """Open the cached conversion of a model; if there is none, make one.

    If it cannot be kept, e.g. on a read-only disk, it is written to a temporary directory. Raises
    OSError if there is no space for the conversion.
    """
    precision = "float32" if options.precision == "auto" else options.precision
    model = opened.config.model
    made_of = {
        "format": str(FORMAT),
        "transformer_cli": __version__,
        "ctranslate2": import_extra("ctranslate2", None, "CTranslate2's search").__version__,
        "weights": opened.checkpoint.files.get(MODEL, ""),
        "tokenizer": opened.tokenizer_sum,
        "model": model.fingerprint(),
        "quantization": precision,
    }

    def write(directory: Path) -> Record:
        from transformer_cli.extensions.ctranslate2 import spec  # imports torch

        spec.write_model(load_weights_of(opened), precision, directory)
        return Record(made_of=made_of)

    def open_engine(directory: Path) -> CTranslate2Engine:
        return CTranslate2Engine.open(
            directory, model, opened.tokenizers, options.threads, precision
        )

    if (cache := open_cache("converted")) is not None:
        kept = cache / f"{precision}-{sum_json(made_of)[:32]}"
        with suppress(CheckpointError, OSError):
            _keep(Artifact(kept, Record, SUMS), write)
            before = kept.stat()
            engine = open_engine(kept)
            # Another process may have removed it during reading, to make space.
            if os.path.samestat(before, kept.stat()):
                with suppress(OSError):  # the cache may be read-only
                    os.utime(kept)
                return engine
    with TemporaryDirectory() as directory:
        write(Path(directory))
        return open_engine(Path(directory))


def _keep(model: Artifact[Record], write: Callable[[Path], Record]) -> None:
    """Convert a model unless the cache has its conversion; then remove old conversions.

    Several processes may do this at once; one of them succeeds in renaming its files. If none does,
    nothing is kept.
    """
    with _CONVERTING:
        if (record := model.read()) is not None and not model.find_damage(record):
            return
        remove_leftovers(model.path.parent)
        if model.path.is_dir():
            remove_directory(model.path)  # it is damaged
        with suppress(OSError):
            model.make(write)
    with suppress(OSError):  # another process may be making space too
        _make_room(model.path)


def _make_room(newest: Path) -> None:
    """Limit conversions to ``MAX_BYTES``: remove the least recently used, but never ``newest``."""
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
