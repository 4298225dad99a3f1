"""``transformer-cli translate``."""

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import declared_by
from transformer_cli.cli.translate_options import TranslateOptions

with lazy_imports():
    from transformer_cli.cli import translation


@declared_by(TranslateOptions, "translate")
def translate(given: TranslateOptions) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    FILE.partial has the translations until FILE is complete; run the same command again to resume.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    translation.open_format(given).translate(given)
