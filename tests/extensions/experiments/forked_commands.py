"""Run jobs' commands as forks of this process, because importing torch takes seconds."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence


class Ended:
    """A process that has ended; see ``subprocess.Popen``."""

    def __init__(self, returncode: int) -> None:
        self.returncode = returncode

    def poll(self) -> int:
        return self.returncode

    wait = poll


def fork_commands(hooked: str = "", hook: Callable[[], None] | None = None) -> None:
    """Replace ``child.start``; if a command is killed, its starter is killed too.

    Args:
        hooked: the first arguments of commands that call ``hook``.
        hook: called first in such a command's process.
    """
    from transformer_cli.extensions.experiments import child

    def start(
        arguments: Sequence[str], stdout: int, stderr: int, variables: Mapping[str, str], lock: int
    ) -> Ended:
        is_hooked = hook is not None and " ".join(arguments).startswith(hooked)
        process = os.fork()
        if not process:
            os.dup2(stderr, 2)
            os.dup2(stdout, 1)
            _be_a_command(arguments, hook if is_hooked else None)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code == -signal.SIGKILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return Ended(code)

    vars(child)["start"] = start


def do_not_wait() -> None:
    """Make a second process fail at once."""
    from transformer_cli.extensions.experiments import runner

    vars(runner)["PATIENCE"] = 0.0


def _be_a_command(arguments: Sequence[str], hook: Callable[[], None] | None) -> None:
    from transformer_cli.cli import main

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
