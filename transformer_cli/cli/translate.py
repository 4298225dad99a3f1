"""``transformer-cli translate``."""

from transformer_cli.cli import options
from transformer_cli.cli.translate_options import TranslateOptions
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.cli import translation


@options.declared_by(TranslateOptions)
def translate(given: TranslateOptions) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    Files of any length take constant memory; FILE.partial has the translations until FILE is
    complete.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    translation.translate_text(given)
