"""The command line: its commands, and the one place where an error becomes a line and a code."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click
import typer

from transformer_cli.cli.evaluate import evaluate
from transformer_cli.cli.options import Version
from transformer_cli.cli.train import train
from transformer_cli.cli.translate import translate
from transformer_cli.cli.vocab import vocab
from transformer_cli.errors import TransformerCliError

app = typer.Typer(
    name="transformer-cli",
    rich_markup_mode=None,  # rich costs --help a third of its time
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for command in (vocab, train, evaluate, translate):
    app.command(no_args_is_help=True)(command)


@app.callback()
def _transformer_cli(version: Version = False) -> None:
    """Train a Transformer to translate, from two text files to a scored model.

    \b
    Example:
      transformer-cli train configs/toy.yaml
      echo 'Ein Hund schläft.' | transformer-cli translate runs/toy
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except TransformerCliError as error:
        return _complain(str(error), error.exit_code)
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "transformer-cli"
        return _complain(f"{error.format_message()} (see: {name} --help)", 2)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # Whoever read our output has had enough, as in `translate … | head -1`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, MemoryError) as error:
        return _complain(str(error) or "out of memory", 1)
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # torch's, which may not be imported
            raise
        return _complain("out of GPU memory; lower batch_tokens, of training or of decoding", 1)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    print(f"transformer-cli: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
