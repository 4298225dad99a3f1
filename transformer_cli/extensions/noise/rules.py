"""Rules that change sentence pairs as careless writers and other programs change text."""

import unicodedata
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from transformer_cli.extensions.truecasing.casing import capitalized
from transformer_cli.extensions.truecasing.lines import to_lower, to_upper
from transformer_cli.extensions.verbatim.verbatim_parts import map_words


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
