"""``transformer-cli init``: write a sample config and the files it needs."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError, did_you_mean
from transformer_cli.base.messages import log
from transformer_cli.base.packages import SCHEMA, TOY, lazy_imports, shipped_directory
from transformer_cli.cli.declaring import CommandOptions, argument, declared_by, option
from transformer_cli.cli.display import align_columns, say

with lazy_imports():
    from transformer_cli.config import data_schema, yaml


@dataclass(frozen=True)
class InitOptions(CommandOptions):
    """The options of ``init``: which sample config to write, and where."""

    heading: ClassVar = "What to write, and where"

    directory: Annotated[
        Path,
        argument(
            "DIR",
            "Directory to write into; it is created if needed.",
            show_default=True,
            file_okay=False,
        ),
    ] = Path()
    from_: Annotated[
        str | None,
        option("NAME", "Sample to write; without this option, list the samples.", "--from"),
    ] = None


class NewConfig(NamedTuple):
    """A config that ``init`` writes, from this package or from an extension.

    An extension describes it in its manifest. ``load`` names a function that takes ``InitOptions``
    and the NAME in ``--from mine:NAME``, or ''. It returns None if there is nothing to write::

        provides = {"init": {"mine": {"load": "init:configure", "help": "Your own text."}}}
    """

    path: Path
    text: str
    commands: tuple[str, ...] = ("train",)
    """The commands that ``init`` suggests to run next with this config."""
    advice: str = ""
    """Advice at the end of the error message if a different file already has that path."""
    others: Mapping[Path, bytes] = {}
    """The content of each additional file to write, keyed by path."""


@declared_by(InitOptions)
def init(given: InitOptions) -> None:
    """Write a sample config and the files it needs.

    Without --from, it lists the samples. With --from NAME, it writes configs/NAME.yaml,
    configs/schema.json for editors and, for toy, the text. It never overwrites a file.

    \b
    Example:
      transformer-cli init --from toy
    """
    given.check_extras()
    added = registry.entries("init")
    configs = shipped_configs() | {name: e.facts["help"] for name, e in added.items()}
    if not given.from_:
        say("\n".join(align_columns(configs.items(), left=2)))
        log("choose one with transformer-cli init --from NAME")
        return
    name, _, rest = given.from_.partition(":")
    if name not in configs or (rest and name not in added):
        hint = did_you_mean(given.from_, configs) or f"choose from {', '.join(configs)}"
        raise UsageError(f"--from {given.from_}: there is no sample of that name; {hint}")
    config = added[name].load()(given, rest) if name in added else _read_shipped(name)
    if config is not None:
        _add(given.directory, config)
        enter = [] if given.directory == Path() else [f"cd {shlex.quote(str(given.directory))}"]
        path = config.path.as_posix()
        commands = (f"transformer-cli {command} {path}" for command in config.commands)
        log(f"next: {' && '.join([*enter, *commands])}")


def find_configs() -> dict[str, Path]:
    """Return the path of each shipped config, including extensions' configs, keyed by name."""
    # A checkout's configs/ has links to files of extensions, which may be missing or unusable.
    own = (path for path in shipped_directory().glob("configs/*.yaml") if not path.is_symlink())
    added = (
        path for folder in registry.installed().values() for path in folder.glob("configs/*.yaml")
    )
    return {path.stem: path for path in sorted((*own, *added), key=lambda path: path.stem)}


def shipped_configs() -> dict[str, str]:
    """Return what each shipped config is for (the second line of its file), keyed by name.

    Leave out configs that start from another run, because they are meant for a checkout.
    """
    texts = {name: path.read_text(encoding="utf-8") for name, path in find_configs().items()}
    return {
        name: text.splitlines()[1].removeprefix("# ")
        for name, text in texts.items()
        if "\ninit:" not in text
    }


def _read_shipped(name: str) -> NewConfig:
    """Return a shipped config with its base files and, for the toy captions, the text."""
    directory, config = shipped_directory(), find_configs()[name]
    files = {Path("configs", path.name): path for path in yaml.list_base_files(config)}
    if isinstance(yaml.load_config(config).data, data_schema.ToyData):
        files |= {TOY / path.name: path for path in (directory / TOY).glob("*.[de][en]")}
    content = {name: path.read_bytes() for name, path in files.items()}
    path = Path("configs", config.name)
    return NewConfig(path, content.pop(path).decode(), others=content)


def _add(directory: Path, config: NewConfig) -> None:
    """Write a config and its files, or none if any would be overwritten; print the new names."""
    schema = {SCHEMA: (shipped_directory() / SCHEMA).read_bytes()}
    files = {config.path: config.text.encode(), **schema, **config.others}
    new = []
    for name, content in sorted(files.items()):
        path = directory / name
        for parent in path.parents:
            # A broken link is in the way, too.
            if os.path.lexists(parent) and not parent.is_dir():
                raise UsageError(f"{parent}: not a directory; move it away, or give another DIR")
        if not os.path.lexists(path):
            new.append(name)
        elif not (path.is_file() and path.read_bytes() == content):
            advice = config.advice if name == config.path else ""
            raise UsageError(
                f"{path}: already exists with other content; move it away, or give another "
                f"directory{advice}"
            )
    for name in new:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        with (directory / name).open("xb") as file:
            file.write(files[name])
        say((directory / name).as_posix())
    if not new:
        log("nothing to write: all files already exist")
