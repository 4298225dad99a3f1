"""``transformer-cli config schema``."""

import typer

from transformer_cli.base.packages import lazy_imports

with lazy_imports():
    from transformer_cli.extensions.config_tools import json_schema


def print_schema() -> None:
    """Print the JSON Schema of configuration files.

    Editors that run the YAML language server complete and check files by it, if a file's
    first line is `# yaml-language-server: $schema=schema.json`, with the path from that file.

    \b
    Example:
      transformer-cli config schema > schema.json
    """
    typer.echo(json_schema.schema_text(), nl=False)
