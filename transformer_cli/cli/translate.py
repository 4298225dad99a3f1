"""``transformer-cli translate``."""

from transformer_cli.cli import options
from transformer_cli.cli.translate_options import TranslateOptions
from transformer_cli.packages import lazy_imports

with lazy_imports():
    from transformer_cli.cli import many_files, translation


@options.declared_by(TranslateOptions)
def translate(given: TranslateOptions) -> None:
    """Translate text, one sentence a line; line N in is line N out.

    Reads standard input and writes standard output unless told otherwise (- means these too).
    FILE.partial has the translations until FILE is complete. Of DIR or a 'pattern*', each file is
    translated into DIR; --cluster gives each worker a file (split -l cuts); run again to resume.

    \b
    Example:
      transformer-cli translate runs/toy -i data/toy/test.de -o test.en
    """
    if given.are_many:
        many_files.translate_files(given)
    else:
        translation.translate_text(given)
