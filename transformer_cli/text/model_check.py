"""Trials of models in a child process, as a damaged or a stranger's can crash the process."""

import hashlib
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from transformer_cli.base.child import PYTHON, environment
from transformer_cli.base.errors import TokenizerError
from transformer_cli.base.files import open_cache
from transformer_cli.base.packages import __version__

_SCRIPT = Path(__file__).with_name("model_check_script.py")
# In seconds. A trial takes a tenth of one, a few with the largest models.
_TIMEOUT = 60.0
# Exit codes from here on are Windows' for errors, such as 0xC0000005, an access violation.
_WINDOWS_CRASH = 0xC0000000
# SHA-256 of the models that this process has learned or checked.
_checked: set[str] = set()


def mark_checked(model: bytes) -> None:
    """Skip the trial of a model that this process has learned."""
    _checked.add(hashlib.sha256(model).hexdigest())


def check_model(
    model: bytes,
    source: Path,
    advice: str,
    module: str = "sentencepiece",
    script: Path | None = None,
) -> None:
    """Use the bytes of a model in a child process, unless they are known to be good.

    TokenizerError names the file that they came from, ``source``, and ends with ``advice``.
    """
    digest = hashlib.sha256(model).hexdigest()
    if digest in _checked:
        return
    if fault := find_fault(module, script, model, {"model": digest}):
        raise TokenizerError(f"{source}: {fault}; {advice}")
    _checked.add(digest)


def find_fault(
    module: str, script: Path | None, model: bytes, sums: Mapping[str, str]
) -> str | None:
    """Return what is wrong with a model of a library; remember in the user's cache if nothing is.

    ``use(model, texts)`` of ``script`` uses each part of it; None: it is SentencePiece's. ``model``
    is what it gets: the model's bytes, or where it is. ``sums`` are the SHA-256 of its files.
    """
    # A trial takes longer than all else before the first translation.
    tried_of = {"by": __version__, module: import_module(module).__version__, **sums}
    name = hashlib.sha256(repr(sorted(tried_of.items())).encode()).hexdigest()
    cache = open_cache("tried")
    if cache is not None and (cache / name).is_file():
        return None
    fault = _try(module, script, model)
    if cache is not None and fault is None:
        with suppress(OSError):  # a cache that is read-only now
            (cache / name).touch()
    return fault


def _try(module: str, script: Path | None, model: bytes) -> str | None:
    """Use a model in a child process; return what is wrong with it."""
    try:
        child = subprocess.run(
            [*PYTHON, str(_SCRIPT), *([str(script)] if script else [])],
            env=environment(),
            input=model,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"the {module} library does not finish with this model"
    code = child.returncode
    if code < 0 or code >= _WINDOWS_CRASH:
        how = f"signal {-code}" if code < 0 else f"code {code:#x}"
        return f"the {module} library crashes on this model ({how})"
    if code > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"not a model of the {module} library ({reason[:200]})"
    return None
