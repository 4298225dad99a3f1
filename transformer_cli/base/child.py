"""Start Python interpreters that do not import modules from the working directory.

Anybody may have put modules into that directory.
"""

import os
import sys
from pathlib import Path

PYTHON = (sys.executable, "-P")  # starts an interpreter; use it with ``environment()``
PACKAGE = Path(__file__).parents[1]


def environment() -> dict[str, str]:
    """Return environment variables for a Python that imports nothing from the working directory.

    They are those of this process, with PYTHONSAFEPATH set, and without the entries of
    PYTHONPATH that stand for the working directory, such as empty ones.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    searched = os.pathsep.join(path for path in named if os.path.normpath(path) != os.curdir)
    return {**os.environ, "PYTHONPATH": searched, "PYTHONSAFEPATH": "1"}


def leave_out_working_directory() -> None:
    """Stop imports from the working directory, in this process and in all processes it starts.

    ``python -m`` puts the directory first in ``sys.path``, and an empty entry of PYTHONPATH puts it
    at that entry's position. Processes that multiprocessing starts have the same ``sys.path``.
    """
    count = 1 + len(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.update(environment())
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # it has been removed
        return
    if here in os.environ["PYTHONPATH"].split(os.pathsep):
        return  # PYTHONPATH names it explicitly
    sys.path[:count] = [path for path in sys.path[:count] if path not in ("", here)]
    root = str(PACKAGE.parent)
    if here == root and root not in sys.path:
        # The program runs from a checkout there. It still comes before an installed one.
        installed = (at for at, path in enumerate(sys.path) if path.endswith("-packages"))
        sys.path.insert(next(installed, len(sys.path)), root)
