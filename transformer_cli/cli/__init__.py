"""The command line app, and the only place that turns errors into a message and an exit code."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from transformer_cli.base import registry
from transformer_cli.base.child import leave_out_working_directory
from transformer_cli.base.errors import (
    ConfigError,
    TrainingError,
    TransformerCliError,
    UsageError,
    did_you_mean,
    shorten_middle,
)
from transformer_cli.base.packages import __version__, lazy_imports, no_collection
from transformer_cli.base.ranks import SINGLE_PROCESS, find_ranks
from transformer_cli.cli.display import print_error
from transformer_cli.cli.process import (
    exit_code,
    find_shortage,
    open_closed_streams,
    settle_output,
    stop_signals,
    use_utf8,
)

with lazy_imports():
    from transformer_cli.config import validation

SPIN_COUNT = "3000"
"""How many times a libgomp thread spins before it sleeps.

The default of 300,000 keeps a core busy that other processes could use; see docs/benchmarks.md.
"""

_CORE_COMMANDS = ("init", "config", "vocab", "train", "evaluate", "translate", "average")
"""The core's commands, in the order in which users need them, from modules of the same names."""


def list_commands() -> dict[str, registry.Entry]:
    """Return the entries of all commands, keyed by name: first the core's, then the extensions'."""
    core = (
        registry.Entry(name, "", {"load": f"{name}:{name}"}, __name__) for name in _CORE_COMMANDS
    )
    return {entry.name: entry for entry in core} | registry.entries("command")


def load_command(name: str, arguments: Sequence[str] | None = None) -> Any:
    """Import a command's module; return its click command, with the options of extensions.

    Return None if there is no such command. If ``arguments`` are given and the command itself has
    all their options, leave out the options of extensions, except those with ``acts_unasked``.
    """
    from transformer_cli.cli.declaring import Declared  # --help does not need it

    entry = list_commands().get(name) or registry.find("command", name)
    if entry is None:
        return None
    loaded = entry.load()
    if not isinstance(loaded, Declared):
        return _make_command(name, loaded)
    if arguments is not None:
        command = _make_command(name, loaded.build(every=False))
        if command.knows(arguments):
            return command
    return _make_command(name, loaded.build(every=True))


def _make_command(name: str, function: Any) -> Any:
    from transformer_cli.cli.declaring import GroupedCommand

    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    command = typer.Typer(add_completion=False, rich_markup_mode=None)
    command.command(name, cls=GroupedCommand)(function)
    return typer.main.get_command(command)


class _Commands(TyperGroup):
    """The commands of the core and of extensions; each is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(list_commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load_command(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, *rest = args
        if name not in (commands := list_commands()) and registry.find("command", name) is None:
            if ctx.resilient_parsing:  # the shell is completing the line
                return None, None, []
            hint = did_you_mean(name, commands)
            missing = registry.describe_missing("command", name, commands)
            ctx.fail(f"{missing}; {hint}" if hint else missing)
        with no_collection():
            return name, load_command(name, None if ctx.resilient_parsing else rest), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = list_commands()
        width = max(map(len, commands))
        for heading, is_core in (("Commands", True), ("Commands of extensions", False)):
            rows = [
                (name.ljust(width), entry.read_summary())
                for name, entry in commands.items()
                if (name in _CORE_COMMANDS) == is_core
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


_app = typer.Typer(
    name="transformer-cli",
    cls=_Commands,
    rich_markup_mode=None,  # rich would take a third of --help's time
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"transformer-cli {__version__}")
        raise typer.Exit()


@_app.callback()
def _transformer_cli(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            expose_value=False,
        ),
    ] = False,
) -> None:
    """Train your own translation model from two text files.

    \b
    Example:
      transformer-cli init --from toy
      transformer-cli train configs/toy.yaml
      echo 'Ein Hund schläft.' | transformer-cli translate runs/toy
    """


def app(arguments: list[str], standalone_mode: bool = True) -> Any:
    """Run the program with these arguments."""
    return typer.main.get_command(_app)(arguments, standalone_mode=standalone_mode)


def main() -> NoReturn:
    """Run the command line and exit."""
    open_closed_streams()
    if "OMP_WAIT_POLICY" not in os.environ:
        # libgomp reads it once, when torch is loaded.
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    leave_out_working_directory()
    use_utf8()
    for number in stop_signals():
        signal.signal(number, _exit_on_signal)
    code = _run()
    if (failed := settle_output()) is not None and not code:  # else it was reported
        print_error(str(_describe(failed)))
        code = 1
    try:
        print(end="", file=sys.stderr, flush=True)
    except OSError:
        # Discard the rest. Otherwise Python tries to write it again and exits with its own code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    # While Python shuts down, a handler's exception could be raised anywhere.
    for number in stop_signals():
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    if "triton" not in sys.modules:  # part of CUDA builds; it would report frozen objects as leaks
        gc.freeze()  # saves a last search through all objects: a tenth of a second
    sys.exit(code)


def _run() -> int:
    arguments, ranks = sys.argv[1:], SINGLE_PROCESS
    try:
        ranks = find_ranks()
        if arguments and not arguments[0].startswith("-"):
            ranks.check_command(arguments[0])
        code = app(arguments or ["--help"], standalone_mode=False)
    except TransformerCliError as error:
        # An error that every rank finds is reported once per machine.
        if ranks.local_rank == 0 or not isinstance(error, UsageError | ConfigError | TrainingError):
            print_error(str(error), error.others if isinstance(error, ConfigError) else ())
        return error.exit_code
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        name = context.command_path if context else "transformer-cli"
        print_error(f"{_describe_usage(error)} (see: {name} --help)")
        return error.exit_code
    except Exception as error:
        if (message := _describe(error)) is None:
            raise
        print_error(message)
        return 1
    return code if isinstance(code, int) else 0


def _describe(error: Exception) -> str | None:
    """Return a message if the machine caused an error, or None if the error is a bug."""
    if (shortage := find_shortage(error)) is not None:
        return shortage
    if not isinstance(error, OSError):
        return None
    is_named = error.filename is not None and error.strerror is not None
    return f"{error.filename}: {error.strerror}" if is_named else str(error)


def _describe_usage(error: typer.TyperException) -> str:
    """Return what is wrong with a command line, and a suggestion if there is a clear one."""
    # typer includes the name of the exception that its value parser raised.
    message = error.format_message().replace(": Value error, ", ": ")
    # pydantic does not name the value; our own parsers do.
    details: Sequence[Any] = getattr(error.__cause__, "errors", list)()
    if details and details[0]["type"] != "value_error":
        message += f", not {shorten_middle(str(details[0]['input']), 100)}"
    context, option = (getattr(error, name, None) for name in ("ctx", "option_name"))
    if context is not None and hasattr(error, "possibilities"):
        if (key := _find_setting(str(option), context.command)) is not None:
            return f"No such option: {option}; use --set {key}="
        return message if error.possibilities else f"{message}; {registry.describe_installed()}"
    if message.startswith("No such command") and message.endswith("."):  # else it has a hint
        return f"{message[:-1]}; {registry.describe_installed()}"
    if context is not None and context.info_name == "translate" and "extra arg" in message:
        example = "echo 'Guten Tag.' | transformer-cli translate RUN"
        message += f"; give a file with -i, or pipe text: {example}"
    return message


def _find_setting(option: str, command: Any) -> str | None:
    """Return the setting that an unknown option names, or None if the command cannot set it."""
    name = option.lstrip("-").replace("-", "_")
    if not any("--set" in parameter.opts for parameter in command.params):
        return None
    keys = {key for key in validation.list_settings() if f".{key}".endswith(f".{name}")}
    return name if name in keys else keys.pop() if len(keys) == 1 else None


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # The module that is being imported may catch an exception. Nothing is half done yet.
            os._exit(exit_code(number))
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(exit_code(number))
