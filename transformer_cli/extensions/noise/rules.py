"""Rules that change sentence pairs as careless writers and other programs change text."""

import re
import unicodedata
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

from transformer_cli.extensions.truecasing.casing import capitalized
from transformer_cli.extensions.truecasing.lines import to_lower, to_upper
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim, map_words


class Pair(NamedTuple):
    """A source sentence and its translation."""

    src: str
    tgt: str


@dataclass(frozen=True)
class Context:
    """What a rule may use besides the pair.

    Attributes:
        src_lang: the language code of the source, without a region.
        tgt_lang: the language code of the target, without a region.
        random: a random number generator.
        other: another pair of the same text; two empty sides if there is none.
    """

    src_lang: str
    tgt_lang: str
    random: Random
    other: Pair


# --- casing ---------------------------------------------------------------------------------------


def all_caps(pair: Pair, context: Context) -> Pair:
    """Return the pair in capitals, unless the source's script has none."""
    src = map_words(pair.src, lambda text: to_upper(text, context.src_lang))
    tgt = map_words(pair.tgt, lambda text: to_upper(text, context.tgt_lang))
    return pair if src == pair.src else Pair(src, tgt)


def no_caps(pair: Pair, context: Context) -> Pair:
    """Return the pair with a source without capitals."""
    src = map_words(pair.src, lambda text: to_lower(text, context.src_lang))
    return pair._replace(src=src)


def title_case(pair: Pair, context: Context) -> Pair:
    """Return the pair with a capital at the start of each source word."""

    def change(text: str) -> str:
        return " ".join(capitalized(word, context.src_lang) for word in text.split(" "))

    return pair._replace(src=map_words(pair.src, change))


# --- characters -----------------------------------------------------------------------------------

_SPELLED = {
    "de": {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"},
    "da": {"å": "aa", "æ": "ae", "ø": "oe", "Å": "Aa", "Æ": "Ae", "Ø": "Oe"},
}
_SPELLED["nb"] = _SPELLED["nn"] = _SPELLED["no"] = _SPELLED["da"]
_WITHOUT_STROKE = str.maketrans("øØłŁđĐıİ", "oOlLdDiI")


def no_diacritics(pair: Pair, context: Context) -> Pair:
    """Return the pair with a source in plain letters: German ä becomes ae, French é becomes e.

    Only accents on Latin letters are removed; in other scripts, words would become unreadable.
    """
    spelled = str.maketrans(_SPELLED.get(context.src_lang, {}))

    def change(text: str) -> str:
        text = unicodedata.normalize("NFC", text).translate(spelled)
        return "".join(map(_plain, text.translate(_WITHOUT_STROKE)))

    return pair._replace(src=map_words(pair.src, change))


def _plain(letter: str) -> str:
    first = unicodedata.normalize("NFD", letter)[0]
    return first if first.isascii() and first.isalpha() else letter


_UNKNOWN = range(0x1F300, 0x1F650), range(0x1F680, 0x1F6C0), range(0x1F910, 0x1F970)
_SYMBOLS = range(0x2600, 0x2700), range(0x2190, 0x2200), range(0x4E00, 0x4F00), range(0x5D0, 0x5EB)


def emoji(pair: Pair, context: Context) -> Pair:
    """Return the pair with the same emoji, symbol or foreign letter at the end of both sides."""
    draw = context.random
    ranges = _UNKNOWN if draw.random() < 0.75 else _SYMBOLS
    unknown = chr(draw.choice(draw.choice(ranges)))
    return Pair(f"{pair.src} {unknown}", f"{pair.tgt} {unknown}")


# --- punctuation and sentences --------------------------------------------------------------------

_MARKS = {
    "„“": "bg cs de et is lt sk sl",
    "„”": "hr hu pl ro sr",
    "«»": "el es it nb nn no pt ru uk",
    "””": "fi sv",
    "»«": "da",
    "「」": "ja",
}
_QUOTES = {language: marks for marks, all_ in _MARKS.items() for language in all_.split()}
_QUOTES["fr"] = "«\u202f\u202f»"
_FINAL = ".!?…。！？।"


def in_quotes(pair: Pair, context: Context) -> Pair:
    """Return the pair in quotation marks: those of each language, or, half the time, straight."""
    if context.random.random() < 0.5:
        return Pair(f'"{pair.src}"', f'"{pair.tgt}"')
    return Pair(_quoted(pair.src, context.src_lang), _quoted(pair.tgt, context.tgt_lang))


def _quoted(text: str, language: str) -> str:
    marks = _QUOTES.get(language, "“”")
    half = len(marks) // 2
    return f"{marks[:half]}{text}{marks[half:]}"


def no_punctuation(pair: Pair, context: Context) -> Pair:
    """Return the pair without final punctuation, if both sides have it."""
    src, tgt = pair.src.rstrip(), pair.tgt.rstrip()
    if not (src.endswith(tuple(_FINAL)) and tgt.endswith(tuple(_FINAL))):
        return pair
    return Pair(src.rstrip(_FINAL), tgt.rstrip(_FINAL))


def two_sentences(pair: Pair, context: Context) -> Pair:
    """Return the pair with another pair behind it."""
    return Pair(f"{pair.src} {context.other.src}", f"{pair.tgt} {context.other.tgt}")


# --- typing ---------------------------------------------------------------------------------------

_TYPO_SHARE = 1 / 7  # of the long words
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
        return _mistyped(found[0], rows, draw) if draw.random() < _TYPO_SHARE else found[0]

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
