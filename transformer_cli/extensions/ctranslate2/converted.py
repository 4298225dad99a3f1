"""Runs' models, converted for CTranslate2 and kept in the user's cache.

CTranslate2 trusts what it reads: a changed file can crash it, or make it write other text. So no
conversion that came with a run is read, but those alone that this user's processes have made on
this machine. A conversion is an artifact, named after the type of its weights and what it was made
of.
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
from transformer_cli.config.choices import Quantization
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine, CTranslate2Translator
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of, open_trained_model

FORMAT = 2
"""Of what ``write_model`` writes: raise it where the same weights are converted otherwise."""
MAX_BYTES = 2 * 2**30
"""Of all conversions that are kept together; the newest one is kept in any case."""
SUMS = "sums.json"
# Temporary names tell processes apart, and not the threads of one.
_CONVERTING = Lock()


def load_run(run: RunDirectory, checkpoint: str, options: ComputeOptions) -> CTranslate2Translator:
    """Convert a run's model and keep that, or open the one that was kept."""
    opened = open_trained_model(run, checkpoint)
    config, tokenizers = opened.config, opened.tokenizers
    precision = "float32" if options.precision == "auto" else options.precision

    def open_engine(directory: Path) -> CTranslate2Engine:
        return CTranslate2Engine.open(
            directory, config.model, tokenizers, options.threads, precision
        )

    with ThreadPoolExecutor(max_workers=1) as beside:
        # What the manifest says of the weights has to be true, or a run could claim to have
        # those of another.
        verified = beside.submit(opened.checkpoint.verify_file, MODEL)
        engine = _open_converted(opened, precision, open_engine)
        verified.result()
    return CTranslate2Translator(engine, tokenizers, config, config.decoding, checkpoint=opened.sum)


def _open_converted(
    opened: OpenedModel,
    quantization: Quantization,
    open_directory: Callable[[Path], CTranslate2Engine],
) -> CTranslate2Engine:
    """Open the conversion of a model that is kept, or one that is made now.

    Where it cannot be kept, as on a disk that is read-only, it is made in a temporary directory.
    ``open_directory`` has read a directory when it returns. OSError: there is no room for it.
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

    if (cache := open_cache("converted")) is not None:
        kept = cache / f"{quantization}-{sum_json(made_of)[:32]}"
        with suppress(CheckpointError, OSError):
            _keep(Artifact(kept, Record, SUMS), write)
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


def _keep(model: Artifact[Record], write: Callable[[Path], Record]) -> None:
    """Convert a model, unless its conversion is kept, and make room.

    Several processes may do so at once: one's rename succeeds. Where none does, nothing is kept.
    """
    with _CONVERTING:
        if (record := model.read()) is not None and not model.find_damage(record):
            return
        remove_leftovers(model.path.parent)
        if model.path.is_dir():
            remove_directory(model.path)  # it is damaged
        with suppress(OSError):
            model.make(write)
    with suppress(OSError):  # another process makes room, too
        _make_room(model.path)


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
