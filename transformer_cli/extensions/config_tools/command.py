"""``transformer-cli config schema``, and ``config show`` with the origin of each setting."""

import typer

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.config import yaml
    from transformer_cli.extensions.config_tools import json_schema, origins


def print_schema() -> None:
    """Print the JSON Schema of configuration files.

    Editors that run the YAML language server complete and check files by it, if a file's
    first line is `# yaml-language-server: $schema=schema.json`, with the path from that file.

    \b
    Example:
      transformer-cli config schema > schema.json
    """
    typer.echo(json_schema.schema_text(), nl=False)


def show(config: options.ConfigOrRun, set_: options.Set = None) -> None:
    """Show every setting, and where its value comes from.

    Prints a YAML configuration with bases and defaults resolved. The comment on each line gives the
    value's origin: file and line, --set or default; and the base's value that it replaces, if any.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
      transformer-cli config show runs/toy
    """
    settings, root = yaml.load_settings(options.find_config(config), set_ or [])
    say(origins.annotate(settings, origins.find_origins(settings, root)).removesuffix("\n"))
