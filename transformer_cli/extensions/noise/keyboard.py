"""Rules for errors of typing: typos, and missing or double spaces."""

import re
from functools import partial
from random import Random

from transformer_cli.extensions.noise.rules import Context, Pair
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim, map_words

_SHARE = 1 / 7  # of the long words
_LONG = re.compile(r"[^\W\d_]{5,}")
_SPACE_SHARE = 0.1  # of the spaces in a line; at least one
_ROWS = {
    "qwerty": "qwertyuiop asdfghjkl zxcvbnm",
    "qwertz": "qwertzuiopü asdfghjklöä yxcvbnm",
    "azerty": "azertyuiop qsdfghjklm wxcvbn",
    "йцукен": "йцукенгшщзхъ фывапролджэ ячсмитьбю",
    "greek": "ςερτυθιοπ ασδφγηξκλ ζχψωβνμ",
}
_LAYOUTS = dict.fromkeys(("cs", "de", "hr", "hu", "sk", "sl"), "qwertz")
_LAYOUTS |= {"fr": "azerty", "el": "greek"} | dict.fromkeys(("be", "bg", "ru", "uk"), "йцукен")


def typos(pair: Pair, context: Context) -> Pair:
    """Return the pair with a typo in about one long source word of seven.

    A typo swaps, drops or doubles a letter, or replaces it with a neighbour on the keyboard.
    """
    draw = context.random
    rows = _ROWS[_LAYOUTS.get(context.src_lang, "qwerty")].split()

    def mistype(found: re.Match[str]) -> str:
        return _mistyped(found[0], rows, draw) if draw.random() < _SHARE else found[0]

    return pair._replace(src=map_words(pair.src, partial(_LONG.sub, mistype)))


def _mistyped(word: str, rows: list[str], draw: Random) -> str:
    place = draw.randrange(1, len(word) - 1)
    letter, following = word[place], word[place + 1]
    mistyped = (
        following + letter,
        following,
        letter + letter + following,
        _neighbour(letter, rows, draw) + following,
    )
    return word[:place] + mistyped[draw.randrange(4)] + word[place + 2 :]


def _neighbour(letter: str, rows: list[str], draw: Random) -> str:
    """Return a key next to a letter's, in its row; a letter that is not on the keyboard stays."""
    row = next((row for row in rows if letter.lower() in row), None)
    if row is None:
        return letter
    place = row.index(letter.lower())
    near: str = draw.choice(row[max(0, place - 1) : place] + row[place + 1 : place + 2])
    return near.upper() if letter.isupper() else near


def wrong_spaces(pair: Pair, context: Context) -> Pair:
    """Return the pair with a tenth of the source's spaces doubled or left out, at least one."""
    draw = context.random
    src = pair.src
    kept = {place for _, start, end in find_verbatim(src) for place in range(start, end)}
    gaps = [place for place, letter in enumerate(src) if letter == " " and place not in kept]
    if not gaps:
        return pair
    wrong = {*draw.sample(gaps, max(1, round(_SPACE_SHARE * len(gaps))))}
    letters = (
        draw.choice(("", "  ")) if place in wrong else src[place] for place in range(len(src))
    )
    return pair._replace(src="".join(letters))
