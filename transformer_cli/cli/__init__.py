"""The command line app, and the one place where errors become a message and an exit code."""

import gc
import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from transformer_cli.base import registry
from transformer_cli.base.child import leave_out_working_directory
from transformer_cli.base.errors import (
    ConfigError,
    RanksError,
    TrainingError,
    TransformerCliError,
    UsageError,
    did_you_mean,
    is_lost_process,
)
from transformer_cli.base.packages import __version__, lazy_imports, no_collection
from transformer_cli.base.ranks import Ranks
from transformer_cli.cli.declaring import Declared, GroupedCommand
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
    from transformer_cli.config import setting_tree, validation

SPIN_COUNT = "3000"
"""Spins of a libgomp thread before it sleeps.

The default, 300,000, blocks a core that others could use; see docs/benchmarks.md.
"""

_CORE_COMMANDS = ("init", "config", "vocab", "train", "evaluate", "translate", "average")
"""In the order of use; each is the function of that name in the module of that name."""
_EXTENDED = ("train", "evaluate", "translate")
"""The commands to which extensions add options."""


def list_commands() -> dict[str, registry.Entry]:
    """Return the commands by name: the core's, then those of extensions."""
    core = (
        registry.Entry(name, "", {"load": f"{name}:{name}"}, __name__) for name in _CORE_COMMANDS
    )
    return {entry.name: entry for entry in core} | registry.entries("command")


class _LazyCommand(TyperCommand):
    """Stands for a command until its arguments are to be parsed."""

    def __init__(self, entry: registry.Entry) -> None:
        super().__init__(entry.name, rich_markup_mode=None)
        self._entry = entry

    def get_short_help_str(self, limit: int = 45) -> str:
        self.help = self._entry.read_summary()
        return super().get_short_help_str(limit)

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **others: Any
    ) -> Any:
        with no_collection():
            command = _load(self._entry, every=False)
            is_completing = others.get("resilient_parsing", False)
            if isinstance(command, GroupedCommand) and (is_completing or not command.knows(args)):
                command = _load(self._entry)
            return command.make_context(info_name, args, *rest, **others)


class _Commands(TyperGroup):
    """The core's commands and those of extensions, which are imported when they are used."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and (entry := registry.find("command", cmd_name)):
            self.add_command(_LazyCommand(entry))
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            commands = list_commands()
            hint = did_you_mean(args[0], commands)
            missing = registry.describe_missing("command", args[0], commands)
            error.message = f"{missing}; {hint}" if hint else missing
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, is_core in (("Commands", True), ("Commands of extensions", False)):
            rows = [
                (name.ljust(width), command.get_short_help_str(formatter.width - width - 4))
                for name, command in self.commands.items()
                if (name in _CORE_COMMANDS) == is_core
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


_app = typer.Typer(
    name="transformer-cli",
    cls=_Commands,
    rich_markup_mode=None,  # rich costs --help a third of its time
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
    """Train a Transformer to translate, from two text files to a scored model.

    \b
    Example:
      transformer-cli init --from toy
      transformer-cli train configs/toy.yaml
      echo 'Ein Hund schläft.' | transformer-cli translate runs/toy
    """


def load_command(name: str) -> Any:
    """Import a command's module; return click's command."""
    return _load(list_commands()[name])


def _load(entry: registry.Entry, every: bool = True) -> Any:
    """Return click's command, with ``every`` option of extensions or those that are always used."""
    command = entry.load()
    if isinstance(command, Declared):
        command = command.build(every)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode=None)
        command.command(entry.name, cls=GroupedCommand)(function)
    made = typer.main.get_command(command)
    (version,) = typer.main.get_command(_app).params[:1]
    for one in (made, *getattr(made, "commands", {}).values()):
        one.params.append(version)
    return made


def app(arguments: list[str], standalone_mode: bool = True) -> Any:
    """Run a command line."""
    group = typer.main.get_command(_app)
    assert isinstance(group, TyperGroup)
    group.commands = {name: _LazyCommand(entry) for name, entry in list_commands().items()}
    return group(arguments, standalone_mode=standalone_mode)


def main() -> NoReturn:
    """Run the command line and exit."""
    open_closed_streams()
    if "OMP_WAIT_POLICY" not in os.environ:
        # libgomp reads it once, when torch is loaded.
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    # It would look for some in all packages that are installed, before its first model.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    leave_out_working_directory()
    use_utf8()
    for number in stop_signals():
        signal.signal(number, _exit_on_signal)
    code = _run()
    if (failed := settle_output()) is not None:
        print_error(str(_describe(failed)))
        code = 1
    try:
        print(end="", file=sys.stderr, flush=True)
    except OSError:
        # Discard what is left, or Python would try to write it again and exit with its own code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    # An exception while Python shuts down would be raised anywhere.
    for number in stop_signals():
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    if "triton" not in sys.modules:  # of CUDA builds; it prints what it takes for leaks
        gc.freeze()  # or Python would look through all objects once more: a tenth of a second
    sys.exit(code)


def _run() -> int:
    arguments = sys.argv[1:]
    try:
        # Several processes would all do the same work and write to the same place.
        alone = arguments and arguments[0] != "train"
        if alone and not arguments[0].startswith("-") and Ranks.from_env().size > 1:
            raise UsageError(f"{arguments[0]}: works in one process; start it without torchrun")
        code = app(arguments or ["--help"], standalone_mode=False)
    except TransformerCliError as error:
        # An error that every rank finds is reported once per machine.
        first = Ranks.from_env().local_rank == 0
        if first or not isinstance(error, UsageError | ConfigError | TrainingError):
            print_error(str(error), error.others if isinstance(error, ConfigError) else ())
        return error.exit_code
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = f" {arguments[0]}" if arguments[0] in list_commands() else ""
        name = context.command_path if context else f"transformer-cli{command}"
        said = _name_setting(error) or f"{_say(error)}{_advise(error)}"
        print_error(f"{said} (see: {name} --help)")
        return error.exit_code
    except Exception as error:
        if (message := _describe(error)) is None:
            raise
        print_error(message)
        return 1
    return code if isinstance(code, int) else 0


def _describe(error: Exception) -> str | None:
    """Return a message about an error of the machine; None: the error is a bug."""
    # NCCL's errors may be both of the first two.
    if (shortage := find_shortage(error)) is not None:
        return shortage
    if is_lost_process(error):
        return str(RanksError.of(error))
    if not isinstance(error, OSError):
        return None
    is_named = error.filename is not None and error.strerror is not None
    return f"{error.filename}: {error.strerror}" if is_named else str(error)


def _say(error: typer.TyperException) -> str:
    # typer repeats the name of the exception that its reader of values ended with.
    said = error.format_message().replace(": Value error, ", ": ")
    # pydantic says what it expects; our own readers of values, what they found, too.
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    found = [each["input"] for each in details[:1] if each["type"] != "value_error"]
    return f"{said}, not {setting_tree.shorten(str(found[0]))}" if found else said


def _name_setting(error: typer.TyperException) -> str | None:
    """Return what to write instead of an unknown option that is a setting, here or elsewhere."""
    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if context is None or not hasattr(error, "possibilities"):
        return None
    name = option.lstrip("-").replace("-", "_")
    settings = set(validation.list_settings())
    keys = [key for key in settings if key.endswith(f".{name}")]
    key = name if name in settings else keys[0] if len(keys) == 1 else None
    here = {own for parameter in context.command.params for own in parameter.opts}
    same = "--" + (key or "").rpartition(".")[2].replace("_", "-")
    if key is None or not here & {same, "--set"}:
        return None
    return f"No such option: {option}; use {same if same in here else f'--set {key}='}"


def _advise(error: typer.TyperException) -> str:
    """Return what to do about an unknown option, or about text that follows the run's name."""
    context, message = getattr(error, "ctx", None), error.format_message()
    name = context and context.info_name
    if not getattr(error, "possibilities", True) and name in _EXTENDED:
        return f"; {registry.describe_installed()}"
    if name != "translate" or "unexpected extra" not in message:
        return ""
    return "; name a file with -i, or pipe text: echo 'Guten Tag.' | transformer-cli translate RUN"


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # A module that is being imported may catch the exception. Nothing is half done yet.
            os._exit(exit_code(number))
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(exit_code(number))
