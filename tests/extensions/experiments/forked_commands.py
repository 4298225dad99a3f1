"""Have ``distill`` run its commands as forks of its own process: to import torch takes seconds."""

import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from transformer_cli.extensions.experiments.child import Command, Ended


class Inline(Executor):
    """Runs what is submitted at once: a fork is best made by the only thread."""

    def __init__(self, workers: int) -> None:
        assert workers == 1, workers

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(call(*args, **kwargs))
        return future


def fork_commands(hooked: str = "", hook: Callable[[], None] | None = None) -> None:
    """Replace ``run_command``; if a command is killed, ``distill`` is too.

    Args:
        hooked: what a command's arguments begin with.
        hook: called in its process first.
    """
    from transformer_cli.extensions.experiments import runner

    def run_command(command: Command) -> Ended:
        is_hooked = hook is not None and " ".join(command.arguments).startswith(hooked)
        process = os.fork()
        if not process:
            _be_a_command(command, hook if is_hooked else None)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code == -signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return Ended(code)

    vars(runner)["run_command"] = run_command
    vars(runner)["ThreadPoolExecutor"] = Inline


def do_not_wait() -> None:
    """Have a second process refused at once."""
    from transformer_cli.extensions.experiments import runner

    vars(runner)["PATIENCE"] = 0.0


def _be_a_command(command: Command, hook: Callable[[], None] | None) -> None:
    from transformer_cli.cli import main

    for descriptor, path in ((2, command.log), (1, command.stdout)):
        if path is not None:
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    if command.stdout is None:
        os.dup2(2, 1)
    sys.argv = ["transformer-cli", *command.arguments]
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
