"""``transformer-cli config``: show and validate configuration files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument
from transformer_cli.cli.display import print_error, say

with lazy_imports():
    from transformer_cli.config import differences, sections, setting_tree, yaml
    from transformer_cli.extensions.config_tools import json_schema, origins
    from transformer_cli.runs import directory

if TYPE_CHECKING:
    from transformer_cli.config.schema import Config
    from transformer_cli.config.sections import Section
    from transformer_cli.extensions.config_tools.origins import Origins, Written

_WIDEST = 40
"""Columns of a line that the comments next to it make room for; those of wider ones stand out."""

config = typer.Typer(add_completion=False, rich_markup_mode=None)


@config.callback(invoke_without_command=True)
def _config(context: typer.Context) -> None:
    """Show and check configuration files.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config.command()
def show(
    config: Annotated[
        Path,
        argument("CONFIG", "YAML file, or a run directory."),
    ],
    set_: options.Set = None,
) -> None:
    """Show every setting, and where its value comes from.

    Prints a YAML configuration with bases and defaults resolved. The comment on each line gives the
    value's origin: file and line, --set or default; and the base's value that it replaces, if any.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
      transformer-cli config show runs/toy
    """
    file, earlier = config, {}
    if config.is_dir():
        run = directory.RunDirectory(config)
        run.load_config()  # or it is no run
        run.check_not_exported()
        file, earlier = run.config, origins.load_origins(run.path)
        if not earlier:
            log(f"{run.path}: where its settings come from is not known (no {origins.RECORD})")
    settings, root = yaml.load_settings(file, set_ or [])
    traced = origins.trace_origins(origins.find_origins(settings, root), file, earlier)
    say(annotate(settings, traced).removesuffix("\n"))


@config.command()
def validate(
    configs: Annotated[
        list[Path],
        argument("CONFIG", "YAML file of an experiment."),
    ],
) -> None:
    """Check every key and value of configuration files.

    Prints a line for each valid file, and on stderr the mistakes of each invalid one; then exits
    with 2. Whether the corpus and other files exist is not checked.

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


@config.command()
def schema() -> None:
    """Print the JSON Schema of configuration files.

    Editors that run the YAML language server complete and check files by it, if a file's
    first line is `# yaml-language-server: $schema=schema.json`, with the path from that file.

    \b
    Example:
      transformer-cli config schema > schema.json
    """
    typer.echo(json_schema.schema_text(), nl=False)


def annotate(config: "Config", origins: "Origins") -> str:
    """Return the YAML text of all settings, with each one's origin as a comment."""
    text = yaml.dump_settings(_dump_fully(config))
    lines = text.splitlines()
    root = setting_tree.parse(text, "")
    comments = {}
    for keys, value in setting_tree.iter_leaves(setting_tree.values(root)):
        node = setting_tree.find_node(root, keys)
        assert node is not None
        comments[node.place.line - 1] = _comment(
            value, *origins.get(setting_tree.join_keys(keys), ())
        )
    widths = [len(lines[number]) for number in comments]
    column = max(width for width in widths if width <= _WIDEST)
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{column}}  # {comment}"
    return "".join(f"{line}\n" for line in lines)


def _dump_fully(section: "Section") -> dict[str, Any]:
    """Return all settings as YAML has them, with the keys that installed extensions add."""
    given = {key: getattr(section, key) for key in section.model_fields_set}
    whole = sections.extend_fully(type(section)).model_validate(given)
    dumped = whole.model_dump(mode="json")
    below = {key: value for key, value in whole if isinstance(value, sections.Section)}
    return dumped | {key: _dump_fully(part) for key, part in below.items()}


def _comment(value: object, *history: "Written") -> str:
    if not history:
        return "default"
    origin, *replaced = history
    text = str(origin)
    if replaced and replaced[0].value != value:
        instead_of = setting_tree.shorten(differences.as_yaml(replaced[0].value))
        text += f", instead of {instead_of} in {replaced[0]}"
    # A file's name may have anything in it.
    return "".join(character if character.isprintable() else "?" for character in text)
