"""Run a command of transformer-cli, and end with the process that started it.

``python -m transformer_cli.child ARGUMENTS``: the starter holds the other end of stdin. When it
dies, however that happens, the pipe is closed, and this process ends at once; what it was writing
is whole or not there.
"""

import os
import runpy
import signal
import subprocess
import sys
import threading
from typing import Any

CHILD = (sys.executable, "-m", "transformer_cli.child")
"""Starts such a process, given the arguments of transformer-cli and a pipe as stdin."""

APART: dict[str, Any]
"""Options of Popen by which a process is no part of its starter's Ctrl-C."""
STOP: int
"""The signal that asks it to stop."""
if sys.platform == "win32":
    APART, STOP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
else:
    APART, STOP = {"start_new_session": True}, signal.SIGTERM


def main() -> None:
    """Run the command line given in ``sys.argv``."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    runpy.run_module("transformer_cli", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    # Not sys.stdin, whose lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(143)


if __name__ == "__main__":
    main()
