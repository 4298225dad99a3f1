"""Have ``distill`` run its commands as forks of its own process: to import torch takes seconds."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def fork_commands(hooked: str = "", hook: Callable[[], None] | None = None) -> None:
    """Replace ``run_command``; if a command is killed, ``distill`` is too.

    Args:
        hooked: what a command's arguments begin with.
        hook: called in its process first.
    """
    from transformer_cli.distill import runner

    def run_command(
        arguments: Sequence[str], stdout: Path | None, should_stop: Callable[[], bool]
    ) -> int:
        is_hooked = hook is not None and " ".join(arguments).startswith(hooked)
        process = os.fork()
        if not process:
            _be_a_command(arguments, stdout, hook if is_hooked else None)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code == -signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return code

    runner.run_command = run_command


def _be_a_command(
    arguments: Sequence[str], stdout: Path | None, hook: Callable[[], None] | None
) -> None:
    from transformer_cli.cli import main

    target = os.dup(2) if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    sys.argv = ["transformer-cli", *arguments]
    if hook is not None:
        hook()
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)
