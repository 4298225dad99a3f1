"""``transformer-cli config``: show and validate configuration files."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.completion import complete_config, complete_config_or_run
from transformer_cli.cli.display import log, print_error, say
from transformer_cli.errors import ConfigError

config_app = typer.Typer(name="config", rich_markup_mode=None)


@config_app.callback(invoke_without_command=True)
def _config(context: typer.Context, version: options.Version = False) -> None:
    """Show and check configuration files.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config_app.command()
def show(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="YAML file, or a run directory.",
            show_default=False,
            autocompletion=complete_config_or_run,
        ),
    ],
    set_: options.Set = None,
    version: options.Version = False,
) -> None:
    """Show every setting, and where its value comes from.

    Prints a YAML configuration with bases and defaults resolved. The comment on each line gives the
    value's origin: file and line, --set or default; and the base's value that it replaces, if any.

    \b
    Example:
      transformer-cli config show configs/toy.yaml --set training.epochs=5
      transformer-cli config show runs/toy
    """
    from transformer_cli.config.origins import load_origins, trace_origins
    from transformer_cli.config.yaml import annotate, load_settings
    from transformer_cli.runs.directory import RunDirectory

    file, earlier = config, {}
    if config.is_dir():
        options.restore_previous(config)
        run = RunDirectory(config)
        run.check_not_hub_model()
        run.load_config()  # or it is no run
        file, earlier = run.config, load_origins(run.origins)
        if not earlier:
            log(f"{run.path}: where its settings come from is not known (no {run.origins.name})")
    settings, origins = load_settings(file, set_ or [])
    say(annotate(settings, trace_origins(origins, file, earlier)).removesuffix("\n"))


@config_app.command()
def validate(
    configs: Annotated[
        list[Path],
        typer.Argument(
            metavar="CONFIG",
            help="YAML file of an experiment.",
            show_default=False,
            autocompletion=complete_config,
        ),
    ],
    version: options.Version = False,
) -> None:
    """Check every key and value of configuration files.

    Prints a line for each valid file, and on stderr the mistakes of each invalid one; then exits
    with 2. Whether the corpus and other files exist is not checked.

    \b
    Example:
      transformer-cli config validate configs/*.yaml
    """
    from transformer_cli.config.yaml import load_config

    good = True
    for config in configs:
        try:
            load_config(config)
        except ConfigError as error:
            good = False
            print_error(str(error), error.others)
        else:
            say(f"{config}: ok")
    if not good:
        raise typer.Exit(ConfigError.exit_code)


@config_app.command()
def schema(version: options.Version = False) -> None:
    """Print the JSON Schema of configuration files.

    Editors that run the YAML language server complete and check files by it, if a file's
    first line is `# yaml-language-server: $schema=schema.json`, with the path from that file.

    \b
    Example:
      transformer-cli config schema > schema.json
    """
    from transformer_cli.config.reference import schema_text

    typer.echo(schema_text(), nl=False)
