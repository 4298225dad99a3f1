"""``transformer-cli config``: check config files; extensions add subcommands."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import argument
from transformer_cli.cli.display import print_error, say

with lazy_imports():
    from transformer_cli.config import yaml

config = typer.Typer(add_completion=False, rich_markup_mode=None)


@config.callback(invoke_without_command=True)
def _config(context: typer.Context) -> None:
    """Commands for config files.

    \b
    Example:
      transformer-cli config validate configs/toy.yaml
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config.command()
def validate(
    configs: Annotated[
        list[Path],
        argument("CONFIG", "YAML file of an experiment."),
    ],
) -> None:
    """Check every key and value of config files.

    It prints a line for each valid file, and the mistakes in the others on stderr. If there are
    any mistakes, it exits with 2. It does not check whether the text exists.

    \b
    Example:
      transformer-cli config validate configs/*.yaml
    """
    is_valid = True
    for path in configs:
        try:
            yaml.load_config(path)
        except ConfigError as error:
            is_valid = False
            print_error(str(error), error.others)
        else:
            say(f"{path}: ok")
    if not is_valid:
        raise typer.Exit(ConfigError.exit_code)


for _entry in registry.entries("config command").values():
    config.command(_entry.name)(_entry.load())
