"""Models from elsewhere, tried in a process of their own before they are used in this one."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Literal

from transformer_cli.errors import TokenizerError
from transformer_cli.text import trial

# Seconds for what takes a tenth of one, or with the largest models a few.
_TRIAL_PATIENCE = 60.0
# The SHA-256 of the models that this process made or tried.
_trusted: set[bytes] = set()
# Each library's models, as messages call them.
_NAMES = {"sentencepiece": "SentencePiece", "tokenizers": "the tokenizers library"}
_MODELS = {"sentencepiece": "SentencePiece model", "tokenizers": "tokenizer.json of Hugging Face"}


def trust(model: bytes) -> None:
    """Take a model for good: this process has made it."""
    _trusted.add(hashlib.sha256(model).digest())


def try_model(
    library: Literal["sentencepiece", "tokenizers"], model: bytes, source: Path, advice: str
) -> None:
    """Use a model in a process of its own, once for each model.

    Args:
        library: what uses it.
        model: its bytes.
        source: the file that they came from, for messages.
        advice: what to do if it is no good, as messages end.

    Raises:
        TokenizerError: it cannot be used.
    """
    digest = hashlib.sha256(model).digest()
    if digest in _trusted:
        return
    name = _NAMES[library]
    try:
        # -P: no module of the current directory or of the script's takes another's place.
        tried = subprocess.run(
            [sys.executable, "-P", trial.__file__, library],
            input=model,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TRIAL_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise TokenizerError(
            f"{source}: {name} does not come to an end with this model; {advice}"
        ) from None
    if tried.returncode < 0:
        raise TokenizerError(
            f"{source}: {name} dies of this model (signal {-tried.returncode}); {advice}"
        )
    if tried.returncode > 0:
        reason = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TokenizerError(f"{source}: not a {_MODELS[library]} ({reason[:200]}); {advice}")
    _trusted.add(digest)
