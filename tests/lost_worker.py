"""A task whose first worker is lost: in a module of its own, which workers import."""

import os
import signal
from pathlib import Path

from transformer_cli.data.store import load_once
from transformer_cli.text.protocol import Tokenizers


def load_or_die(directory: Path, mark: Path) -> Tokenizers:
    """Load tokenizers; the first process that is to do so is killed instead."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return load_once(directory, "print")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
