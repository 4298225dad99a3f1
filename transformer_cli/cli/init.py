"""``transformer-cli init``."""

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, ClassVar, NamedTuple

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError, did_you_mean
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, option
from transformer_cli.cli.display import align_columns, log, say

with lazy_imports():
    from transformer_cli.base import writing
    from transformer_cli.config import data_schema, shipped, yaml


@dataclass(frozen=True)
class InitOptions(CommandOptions):
    """What ``init`` is given."""

    heading: ClassVar = "Where to and what from"

    directory: Annotated[
        Path,
        argument("DIR", "Where to; made if it is not there.", show_default=True, file_okay=False),
    ] = Path()
    from_: Annotated[str | None, option("NAME", "Configuration to start from.", "--from")] = None


class NewConfig(NamedTuple):
    """A configuration that an extension makes for ``init``.

    The extension's manifest says what it makes some of, and its ``load`` is a function of
    ``InitOptions`` and the NAME in ``--from own:NAME``, '' if there is none; it may return None::

        provides = {"init": {"mine": {"load": "init:configure", "help": "Your own text."}}}
    """

    path: Path
    text: str
    commands: tuple[str, ...] = ("train",)
    """What to do with it next."""

    def write(self, made: Path) -> None:
        """Write it, with the schema, into a directory."""
        (made / self.path).parent.mkdir(parents=True, exist_ok=True)
        (made / self.path).write_text(self.text, encoding="utf-8", newline="\n")
        shutil.copyfile(shipped.shipped_directory() / shipped.SCHEMA, made / shipped.SCHEMA)


@declared_by(InitOptions, "init")
def init(given: InitOptions) -> None:
    """Write a configuration to start from, and what it needs.

    Without --from, lists the configurations and, on a terminal, asks for one. Writes
    configs/NAME.yaml with its bases, configs/schema.json for editors and, for toy, the text. No
    file is overwritten.

    \b
    Example:
      transformer-cli init --from toy
    """
    added = registry.entries("init")
    if not given.from_:
        given.check_extras()
    configs = {**shipped.shipped_configs(), **{name: e.facts["help"] for name, e in added.items()}}
    chosen = given.from_ or _choose(configs)
    if chosen is None:
        return
    name, _, rest = chosen.partition(":")
    if name not in configs or (rest and name not in added):
        hint = did_you_mean(chosen, configs) or f"choose from {', '.join(configs)}"
        raise UsageError(f"--from {chosen}: there is no configuration of that name; {hint}")
    given = replace(given, from_=chosen)
    given.check_extras()
    if name not in added:
        _add(given.directory, lambda made: copy_shipped(name, made))
        _show_next(given.directory, f"transformer-cli train configs/{name}.yaml")
    elif (config := added[name].load()(given, rest)) is not None:
        _add_config(given.directory, config)


def copy_shipped(name: str, target: Path) -> None:
    """Copy a shipped configuration, its bases, the schema and, for the toy captions, their text."""
    directory = shipped.shipped_directory()
    config = shipped.find_configs()[name]
    configs = [*yaml.list_base_files(config), directory / shipped.SCHEMA]
    copies = {target / "configs" / path.name: path for path in configs}
    if isinstance(yaml.load_config(config).data, data_schema.ToyData):
        texts = (directory / shipped.TOY).glob("*.[de][en]")
        copies |= {target / shipped.TOY / path.name: path for path in texts}
    for copy, path in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _choose(configs: Mapping[str, str]) -> str | None:
    """List the configurations; return the chosen one if stdin is a terminal."""
    say("\n".join(align_columns(configs.items(), left=2)))
    if is_terminal():
        return ask("start from", "toy")
    log("choose one with transformer-cli init --from NAME")
    return None


def _add_config(directory: Path, config: NewConfig) -> None:
    try:
        _add(directory, config.write)
    except UsageError as error:
        hint = ", or choose another --name" if config.path.name in str(error) else ""
        raise UsageError(f"{error}{hint}") from error
    path = config.path.as_posix()
    _show_next(directory, *(f"transformer-cli {name} {path}" for name in config.commands))


def _add(directory: Path, fill: Callable[[Path], None]) -> None:
    """Add the files that ``fill`` writes into a directory, and print their names."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".init-", dir=directory) as made:
        fill(Path(made))
        new = writing.add_files(Path(made), directory)
    for path in new:
        say((directory / path).as_posix())
    if not new:
        log("nothing to write: all files are there already")


def _show_next(directory: Path, *commands: str) -> None:
    is_windows = sys.platform == "win32"
    quoted = f'"{directory}"' if is_windows else shlex.quote(str(directory))
    enter = [] if directory == Path() else [f"cd {quoted}"]
    # PowerShell has no `&&`.
    joint = "\n      " if is_windows else " && "
    log(f"next: {joint.join([*enter, *commands])}")


def ask(question: str, default: str = "") -> str:
    """Ask on stderr; return the answer, or the default if that is empty."""
    shown = f" [{default}]" if default else ""
    print(f"{question}{shown}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("the questions were not answered; see transformer-cli init --help")
    return line.strip() or default


def is_terminal() -> bool:
    """Return whether questions can be answered on stdin."""
    return sys.stdin is not None and sys.stdin.isatty()
