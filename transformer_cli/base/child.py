"""How this program starts interpreters, none of which imports modules from the working directory.

That may be anybody's.
"""

import os
import sys
from pathlib import Path

PYTHON = (sys.executable, "-P")  # starts an interpreter, best in ``environment()``
PACKAGE = Path(__file__).parents[1]


def environment() -> dict[str, str]:
    """Return an environment in which no interpreter searches the working directory.

    That is ours without the entries of PYTHONPATH that stand for the directory: the empty ones.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    searched = os.pathsep.join(path for path in named if os.path.normpath(path) != os.curdir)
    return {**os.environ, "PYTHONPATH": searched, "PYTHONSAFEPATH": "1"}


def leave_out_working_directory() -> None:
    """Import nothing more from the working directory, in this process and all that it starts.

    ``python -m`` has put it first, and an empty entry of PYTHONPATH where that was. What
    multiprocessing starts searches what this process does.
    """
    count = 1 + len(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ.update(environment())
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # it has been removed
        return
    if here in os.environ["PYTHONPATH"].split(os.pathsep):
        return  # it is asked for by its name
    sys.path[:count] = [path for path in sys.path[:count] if path not in ("", here)]
    root = str(PACKAGE.parent)
    if here == root and root not in sys.path:
        # The program lies there, not installed. It still goes before another one that is.
        installed = (at for at, path in enumerate(sys.path) if path.endswith("-packages"))
        sys.path.insert(next(installed, len(sys.path)), root)
