"""A command of this program that runs as a process of its own, and ends with its starter.

``CHILD`` runs this module: the starter holds the other end of stdin. When the starter dies,
whatever the reason, the pipe is closed, and this process ends at once; what it was writing is whole
or not there.
"""

import os
import signal
import sys
import threading
from typing import Any

from transformer_cli.base.child import PROGRAM
from transformer_cli.extensions.cluster import fence

CHILD = (*PROGRAM[:-1], "transformer_cli.extensions.experiments.child")
"""Starts it as a process that ends with this one, given its arguments and a pipe as stdin."""

APART: dict[str, Any]  # options of Popen by which a process is no part of its starter's Ctrl-C
STOP: int  # the signal that asks it to stop
if sys.platform == "win32":
    from subprocess import CREATE_NEW_PROCESS_GROUP

    APART, STOP = {"creationflags": CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
else:
    APART, STOP = {"start_new_session": True}, signal.SIGTERM


def main() -> None:
    """Run the command line given in ``sys.argv``."""
    import runpy

    threading.Thread(target=_end_with_starter, daemon=True).start()
    if fence.VARIABLE in os.environ:
        fence.FENCE.check()
        threading.Thread(target=fence.FENCE.watch, daemon=True).start()
    runpy.run_module("transformer_cli", run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    # Not sys.stdin, whose lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os._exit(143)


if __name__ == "__main__":
    main()
