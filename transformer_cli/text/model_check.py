"""Trials of models in a child process, as a damaged or a stranger's can crash the process."""

import hashlib
import subprocess
from pathlib import Path
from typing import Literal

from transformer_cli.child import PYTHON, environment
from transformer_cli.errors import TokenizerError
from transformer_cli.text import model_check_script

# In seconds. A trial takes a tenth of one, a few with the largest models.
_TIMEOUT = 60.0
# Exit codes from here on are Windows' for errors, such as 0xC0000005, an access violation.
_WINDOWS_CRASH = 0xC0000000
# SHA-256 of the models that this process has learned or checked.
_checked: set[bytes] = set()


Library = Literal["sentencepiece", "tokenizers", "ctranslate2"]
# What messages call a library, and a model of it.
_NAMES = {
    "sentencepiece": ("SentencePiece", "SentencePiece model"),
    "tokenizers": ("the tokenizers library", "tokenizer.json of Hugging Face"),
    "ctranslate2": ("CTranslate2", "model of CTranslate2"),
}


def mark_checked(model: bytes) -> None:
    """Skip the trial of a model that this process has learned."""
    _checked.add(hashlib.sha256(model).digest())


def check_model(library: Library, model: bytes, source: Path, advice: str) -> None:
    """Use the bytes of a model in a child process, unless this process has checked them before.

    TokenizerError names the file that they came from, ``source``, and ends with ``advice``.
    """
    digest = hashlib.sha256(model).digest()
    if digest in _checked:
        return
    if fault := find_fault(library, model):
        raise TokenizerError(f"{source}: {fault}; {advice}")
    _checked.add(digest)


def find_fault(library: Library, model: bytes) -> str | None:
    """Use a model in a child process; return what is wrong with it.

    ``model`` is its bytes; of CTranslate2, the path of its directory.
    """
    library_name, model_name = _NAMES[library]
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
        return f"{library_name} does not finish with this model"
    if child.returncode < 0 or child.returncode >= _WINDOWS_CRASH:
        how = (
            f"signal {-child.returncode}" if child.returncode < 0 else f"code {child.returncode:#x}"
        )
        return f"{library_name} crashes on this model ({how})"
    if child.returncode > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"not a {model_name} ({reason[:200]})"
    return None
