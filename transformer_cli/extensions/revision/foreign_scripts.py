"""The scripts of languages and letters, and languages that are close to each other."""

import re
import unicodedata

from transformer_cli.config.languages import base_language, script_code

_LATIN, _CYRILLIC, _ARABIC, _DEVANAGARI = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",)
_BY_SCRIPTS = {
    _LATIN: "af az bs ca cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr hu id ig is it ku "
    "la lb lt lv ms mt nb nl nn no oc pl pt ro sk sl so sq sv sw tl tr vi xh yo zu",
    _CYRILLIC: "be bg ky mk mn ru tg uk",
    ("CYRILLIC", "LATIN"): "kk sr uz",
    _ARABIC: "ar ckb fa ps sd ug ur",
    _DEVANAGARI: "hi mr ne sa",
    ("GREEK",): "el",
    ("HEBREW",): "he yi",
    ("ARMENIAN",): "hy",
    ("GEORGIAN",): "ka",
    ("ETHIOPIC",): "am ti",
    ("BENGALI",): "as bn",
    ("GURMUKHI",): "pa",
    ("GUJARATI",): "gu",
    ("ORIYA",): "or",
    ("TAMIL",): "ta",
    ("TELUGU",): "te",
    ("KANNADA",): "kn",
    ("MALAYALAM",): "ml",
    ("SINHALA",): "si",
    ("THAI",): "th",
    ("LAO",): "lo",
    ("KHMER",): "km",
    ("MYANMAR",): "my",
    ("TIBETAN",): "bo dz",
    ("CJK", "BOPOMOFO"): "yue zh",
    ("CJK", "HIRAGANA", "KATAKANA"): "ja",
    ("HANGUL", "CJK"): "ko",
}
_SCRIPTS = {
    language: frozenset(scripts)
    for scripts, languages in _BY_SCRIPTS.items()
    for language in languages.split()
}
# By the codes of ISO 15924, as in 'sr-Latn'; a Chinese one says no more than the language.
_CODES = (
    "Latn LATIN Cyrl CYRILLIC Arab ARABIC Deva DEVANAGARI Grek GREEK Hebr HEBREW Armn ARMENIAN "
    "Geor GEORGIAN Ethi ETHIOPIC Beng BENGALI Guru GURMUKHI Gujr GUJARATI Orya ORIYA Taml TAMIL "
    "Telu TELUGU Knda KANNADA Mlym MALAYALAM Sinh SINHALA Thai THAI Laoo LAO Khmr KHMER "
    "Mymr MYANMAR Tibt TIBETAN"
)
_BY_CODE = dict(re.findall(r"(\w{4}) (\w+)", _CODES))
# The Unicode name of a letter starts with its script, with exceptions such as 'MICRO SIGN'.
_NAMES = frozenset(name for scripts in _BY_SCRIPTS for name in scripts)
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")
_CLOSE = ("no nb nn da", "bs cnr hr sr", "cs sk", "gl pt", "id ms")


def scripts_of(language: str) -> frozenset[str] | None:
    """Return a language's scripts ('de', 'sr-Latn'), as Unicode names them; None: unknown."""
    script = _BY_CODE.get(script_code(language) or "")
    return _SCRIPTS.get(base_language(language)) if script is None else frozenset({script})


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
