"""Run a command of this program in a child process, which ends when its parent ends.

The parent starts this module as the child, and holds the other end of the child's stdin. When the
parent dies for any reason, this pipe closes, and the child ends at once. A file that the child was
writing is then either complete or missing.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from transformer_cli.base.child import PACKAGE, PYTHON, environment

# The child must use the package that started it, which may not be on the child's search path.
_RUN = f"""\
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location({PACKAGE.name!r}, {str(PACKAGE / "__init__.py")!r})
package = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
runpy.run_module("transformer_cli.extensions.experiments.child", run_name="__main__")
"""
CHILD = (*PYTHON, "-c", _RUN)  # starts a command; append its arguments

_APART: dict[str, Any]  # options of Popen that protect a process from its starter's Ctrl-C
_STOP: int  # the signal that asks a process to stop
if sys.platform == "win32":
    from subprocess import CREATE_NEW_PROCESS_GROUP

    _APART, _STOP = {"creationflags": CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
else:
    _APART, _STOP = {"start_new_session": True}, signal.SIGTERM


def start(
    arguments: Sequence[str], stdout: int, stderr: int, variables: Mapping[str, str], lock: int
) -> "subprocess.Popen[bytes]":
    """Start a command of transformer-cli; its output goes to the given file descriptors.

    The command keeps ``lock``, the descriptor of a directory's lock, open. So the directory stays
    locked until the command has ended, even if this process ends first.
    """
    return subprocess.Popen(
        [*CHILD, *arguments],
        env={**environment(), **variables},
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        pass_fds=() if sys.platform == "win32" else (lock,),
        **_APART,
    )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask a command to stop; if it is training, it saves a checkpoint first."""
    if process.poll() is None:
        process.send_signal(_STOP)


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Run the command line in ``sys.argv``; end at once if the parent process ends."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    runpy.run_module("transformer_cli", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    # Do not use sys.stdin, whose lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(143)


if __name__ == "__main__":
    main()
