"""Check of tokenizer models in a child process, as a damaged one can crash the process."""

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
_NAMES = {"sentencepiece": "SentencePiece", "tokenizers": "the tokenizers library"}
_MODELS = {"sentencepiece": "SentencePiece model", "tokenizers": "tokenizer.json of Hugging Face"}


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
        raise TokenizerError(
            f"{source}: {name} does not finish with this model; {advice}"
        ) from None
    if child.returncode < 0 or child.returncode >= _WINDOWS_CRASH:
        code = child.returncode
        how = f"signal {-code}" if code < 0 else f"code {code:#x}"
        raise TokenizerError(f"{source}: {name} crashes on this model ({how}); {advice}")
    if child.returncode > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise TokenizerError(f"{source}: not a {_MODELS[library]} ({reason[:200]}); {advice}")
    _checked.add(digest)
