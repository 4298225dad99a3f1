"""``python -m transformer_cli`` is ``transformer-cli``."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C before ``main`` takes over: without a traceback of what was being imported.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from transformer_cli.base.packages import no_collection

with no_collection():
    from transformer_cli.cli import main

if __name__ == "__main__":
    main()
