"""Test tokenizer models in child processes, because loading a damaged one may crash a process."""

import hashlib
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.child import PYTHON, environment
from transformer_cli.base.errors import TokenizerError
from transformer_cli.base.files import open_cache
from transformer_cli.base.packages import __version__

_SCRIPT = Path(__file__).with_name("model_check_script.py")
# In seconds. A test takes 0.1 seconds, or a few seconds with the largest models.
_TIMEOUT = 60.0
# On Windows, higher exit codes mean crashes; for example, 0xC0000005 is an access violation.
_WINDOWS_CRASH = 0xC0000000
# The SHA-256 of each model that this process has learned or checked.
_checked: set[str] = set()


def mark_checked(model: bytes) -> None:
    """Let ``check_model`` skip the test of a model, because this process has learned the model."""
    _checked.add(hashlib.sha256(model).hexdigest())


def check_model(
    model: bytes,
    source: Path,
    advice: str,
    module: str = "sentencepiece",
    script: Path | None = None,
) -> None:
    """Test a tokenizer's model in a child process, unless it is known to be good.

    If the test fails, raise a TokenizerError that names ``source``, the file that the model was
    read from, and ends with ``advice``. For ``module`` and ``script``, see ``find_fault``.
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
    """Return what is wrong with a model, or None; the user's cache lists models without faults.

    ``module`` is the library that reads the model. ``script`` has a function ``use(model, texts)``
    that uses each part of the model; None means a SentencePiece model. ``model`` has the bytes that
    the script gets: the model or its path. ``sums`` has the SHA-256 of each of the model's files.
    """
    # The cache helps: a test takes longer than everything else before the first translation.
    name = sum_json({"by": __version__, module: import_module(module).__version__, **sums})
    cache = open_cache("tried")
    if cache is not None and (cache / name).is_file():
        return None
    fault = _try(module, script, model)
    if cache is not None and fault is None:
        with suppress(OSError):  # the cache may have become read-only
            (cache / name).touch()
    return fault


def _try(module: str, script: Path | None, model: bytes) -> str | None:
    """Test a model in a child process; return what is wrong with it, or None."""
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
        return f"the {module} library hangs with this model"
    code = child.returncode
    if code < 0 or code >= _WINDOWS_CRASH:
        how = f"signal {-code}" if code < 0 else f"code {code:#x}"
        return f"the {module} library crashes on this model ({how})"
    if code > 0:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"not a model of the {module} library ({reason[:200]})"
    return None
