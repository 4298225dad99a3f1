"""Run ``transformer-cli`` as ``python -m transformer_cli``."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until ``main`` takes over, Ctrl-C exits without a traceback of unfinished imports.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Otherwise pydantic searches all installed packages for plugins, which takes 10 ms.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")

from transformer_cli.base.packages import no_collection

with no_collection():
    from transformer_cli.cli import main

if __name__ == "__main__":
    main()
