"""Trials of models in a child process, as a damaged or a stranger's can crash the process."""

import hashlib
import subprocess
from pathlib import Path
from typing import Literal

from transformer_cli.child import PYTHON, environment
from transformer_cli.errors import TokenizerError
from transformer_cli.text import model_check_script

# In seconds. A check takes a tenth of one, a few with the largest models.
_TIMEOUT = 60.0
# Exit codes from here on are Windows' for errors, such as 0xC0000005, an access violation.
_WINDOWS_CRASH = 0xC0000000
# SHA-256 of the models that this process has learned or checked.
_checked: set[bytes] = set()
# The libraries and their models in messages.
_NAMES = {
    "sentencepiece": "SentencePiece",
    "tokenizers": "the tokenizers library",
    "ctranslate2": "CTranslate2",
}
_MODELS = {
    "sentencepiece": "SentencePiece model",
    "tokenizers": "tokenizer.json of Hugging Face",
    "ctranslate2": "model of CTranslate2",
}


def mark_checked(model: bytes) -> None:
    """Skip the check of a model that this process has learned."""
    _checked.add(hashlib.sha256(model).digest())


def check_model(
    library: Literal["sentencepiece", "tokenizers"], model: bytes, source: Path, advice: str
) -> None:
    """Use a model in a child process, unless this process has checked it before.

    Args:
        library: the library that reads it.
        model: its bytes.
        source: the file that they came from, for messages.
        advice: what to do if the model is unusable; messages end with it.

    Raises:
        TokenizerError: the library cannot read or use it.
    """
    digest = hashlib.sha256(model).digest()
    if digest in _checked:
        return
    if fault := find_fault(library, model):
        raise TokenizerError(f"{source}: {fault}; {advice}")
    _checked.add(digest)


def find_fault(
    library: Literal["sentencepiece", "tokenizers", "ctranslate2"], model: bytes
) -> str | None:
    """Use a model in a child process; return what is wrong with it.

    Args:
        library: the library that reads it.
        model: its bytes; of CTranslate2, the path of its directory.
    """
    name = _NAMES[library]
    try:
        child = subprocess.run(
            [*PYTHON, model_check_script.__file__, library],
            env=environment(),
            input=model,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"{name} does not finish with this model"
    if child.returncode < 0 or child.returncode >= _WINDOWS_CRASH:
        code = child.returncode
        how = f"signal {-code}" if code < 0 else f"code {code:#x}"
        return f"{name} crashes on this model ({how})"
    if child.returncode > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"not a {_MODELS[library]} ({reason[:200]})"
    return None
