"""The commands ``config schema`` and ``config show``, which shows where each setting was set."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.config import yaml
    from transformer_cli.extensions.config_tools import json_schema, origins
    from transformer_cli.runs import directory


def print_schema() -> None:
    """Print the JSON Schema of config files.

    Editors with the YAML language server use it to complete and check files that begin with
    `# yaml-language-server: $schema=schema.json`; the path is relative to that file.

    \b
    Example:
      transformer-cli config schema > schema.json
    """
    typer.echo(json_schema.schema_text(), nl=False)


def show(
    config: Annotated[Path, argument("CONFIG", "YAML file, or a run directory.")],
    set_: options.Set = None,
) -> None:
    """Show every setting and where it was set.

    A comment on each line names the origin: file and line, --set, or default. If the setting
    overrides a value from a base file, the comment shows that value too.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
      transformer-cli config show runs/toy
    """
    if config.is_dir():
        run = directory.RunDirectory(config)
        run.load_config()  # raises if it is not a run
        run.check_not_exported()
        config = run.config
    settings, root = yaml.load_settings(config, set_ or [])
    say(origins.annotate(settings, origins.find_origins(settings, root)).removesuffix("\n"))
