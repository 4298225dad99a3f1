"""Where a run's text lies: its prepared corpus, or where it found Multi30k.

The latter is recorded, to be found again without ``$MULTI30K_DIR``.
"""

import json
from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.config.data_schema import DataConfig, Multi30kData
from transformer_cli.data import multi30k
from transformer_cli.data.prepared import RECORD
from transformer_cli.files import read_small
from transformer_cli.runs.contents import CORPUS
from transformer_cli.runs.directory import RunDirectory

_KEY = "multi30k"


def record_corpus_directory(run: RunDirectory, data: DataConfig) -> None:
    """Record in an initialized run where Multi30k lies, if it is trained on that."""
    if not isinstance(data, Multi30kData):
        return
    found = multi30k.find("train", data.src_lang, data.tgt_lang, corpus_directory(run))
    if found is None:
        return
    directory = found[0].parent.absolute()
    if corpus_directory(run) != directory:
        write_text(run.path / CORPUS, json.dumps({_KEY: directory.as_posix()}) + "\n")


def corpus_directory(run: RunDirectory) -> Path | None:
    """Return the run's prepared corpus, or the recorded directory, or None."""
    if (run.corpus / RECORD).is_file():
        return run.corpus
    try:
        found = json.loads(read_small(run.path / CORPUS))
        directory = found[_KEY]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # The record is not trusted: files found there are verified.
    return Path(directory) if isinstance(directory, str) and "\0" not in directory else None
