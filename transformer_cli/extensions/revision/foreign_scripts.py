"""Lines in scripts that their language has not, and languages that are close to each other."""

import unicodedata

from transformer_cli.config.languages import base_language
from transformer_cli.text.scripts import BY_SCRIPTS, scripts_of

MIN_SCRIPT_LETTERS = 5  # a line of fewer letters, an abbreviation say, tells no script
MAX_FOREIGN_SHARE = 0.5  # of a line's letters, in other scripts than its language's

# The Unicode name of a letter starts with its script, with exceptions such as 'MICRO SIGN'.
_NAMES = frozenset(name for scripts in BY_SCRIPTS for name in scripts)
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")
_CLOSE = ("no nb nn da", "bs cnr hr sr", "cs sk", "gl pt", "id ms")


def are_close(first: str, second: str) -> bool:
    """Return whether sentences are often the same in two languages: in nb and nn, pt-BR and pt.

    Nothing is the same in two scripts: not in sr-Cyrl and sr-Latn.
    """
    scripts = [scripts_of(language) for language in (first, second)]
    if None not in scripts and not frozenset.intersection(*filter(None, scripts)):
        return False
    one, other = base_language(first), base_language(second)
    return one == other or any({one, other} <= set(group.split()) for group in _CLOSE)


def script_of(character: str) -> str | None:
    """Return a letter's script; None for one of an unknown script and for other characters."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "")
    for width in _WIDTHS:
        name = name.removeprefix(width)
    first = name.partition(" ")[0].partition("-")[0]
    return first if first in _NAMES else None


class ScriptCheck:
    """Tells lines that are in no script of a language."""

    def __init__(self, language: str) -> None:
        self._scripts = scripts_of(language)
        self._met: set[str] = set()
        self._foreign: dict[str, str] = {}  # scripts of the letters of others

    def foreign_script(self, line: str) -> str | None:
        """Return the script that most of a line's letters are in, if the language has not it."""
        if self._scripts is None or ("LATIN" in self._scripts and line.isascii()):
            return None
        # By its different characters, since nearly all lines have none that matters.
        characters = set(line)
        for character in characters - self._met:
            self._met.add(character)
            script = script_of(character)
            if script is not None and script not in self._scripts:
                self._foreign[character] = script
        if characters.isdisjoint(self._foreign):
            return None
        letters = [character for character in line if character.isalpha()]
        foreign = [letter for letter in letters if letter in self._foreign]
        is_most = len(foreign) > MAX_FOREIGN_SHARE * len(letters)
        return self._foreign[foreign[0]] if is_most and len(letters) >= MIN_SCRIPT_LETTERS else None
