"""Trials of models in a child process, as a damaged or a stranger's can crash the process."""

import hashlib
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple

from transformer_cli.child import PYTHON, environment
from transformer_cli.errors import TokenizerError
from transformer_cli.text import model_check_script

# In seconds. A trial takes a tenth of one, a few with the largest models.
_TIMEOUT = 60.0
# Exit codes from here on are Windows' for errors, such as 0xC0000005, an access violation.
_WINDOWS_CRASH = 0xC0000000
# SHA-256 of the models that this process has learned or checked.
_checked: set[bytes] = set()


class _Names(NamedTuple):
    """What messages call a library and a model of it."""

    library: str
    model: str


Library = Literal["sentencepiece", "tokenizers", "ctranslate2"]
_NAMES = {
    "sentencepiece": _Names("SentencePiece", "SentencePiece model"),
    "tokenizers": _Names("the tokenizers library", "tokenizer.json of Hugging Face"),
    "ctranslate2": _Names("CTranslate2", "model of CTranslate2"),
}


def mark_checked(model: bytes) -> None:
    """Skip the trial of a model that this process has learned."""
    _checked.add(hashlib.sha256(model).digest())


def check_model(library: Library, model: bytes, source: Path, advice: str) -> None:
    """Use a model in a child process, unless this process has checked it before.

    Args:
        library: the library that reads it.
        model: its bytes.
        source: the file that they came from, for messages.
        advice: what to do if the model is unusable; the message of TokenizerError ends with it.
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
    names = _NAMES[library]
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
        return f"{names.library} does not finish with this model"
    if child.returncode < 0 or child.returncode >= _WINDOWS_CRASH:
        code = child.returncode
        how = f"signal {-code}" if code < 0 else f"code {code:#x}"
        return f"{names.library} crashes on this model ({how})"
    if child.returncode > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"not a {names.model} ({reason[:200]})"
    return None
