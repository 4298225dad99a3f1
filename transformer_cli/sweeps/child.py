"""Run a command of transformer-cli, and end with the process that started it.

``python -m transformer_cli.sweeps.child ARGUMENTS``: the starter holds the other end of stdin. When
it dies, however that happens, the pipe is closed, and this process ends at once; what it was
writing is whole or not there.
"""

import os
import runpy
import threading


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
