"""Where a run found Multi30k, so that it is found again where ``$MULTI30K_DIR`` is not set."""

import json
from pathlib import Path

from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.streamed import Joined, PairSource
from transformer_cli.files import write_text
from transformer_cli.runs.directory import RunDirectory

NAME = "corpus.json"
_KEY = "multi30k"


def remember_corpus(run: RunDirectory, text: PairSource) -> None:
    """Note in a prepared run where its training text, which is Multi30k's, lies."""
    train = text.sources[0] if isinstance(text, Joined) else text
    if not isinstance(train, ParallelFiles):
        return
    directory = train.src.parent.absolute()
    if corpus_directory(run) != directory:
        write_text(run.path / NAME, json.dumps({_KEY: str(directory)}) + "\n")


def corpus_directory(run: RunDirectory) -> Path | None:
    """Where the run found it; None: nothing is known."""
    try:
        found = json.loads((run.path / NAME).read_text(encoding="utf-8"))
        directory = found[_KEY]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # Anybody may have written it: it is a place to look in, and what lies there is verified.
    return Path(directory) if isinstance(directory, str) and "\0" not in directory else None
