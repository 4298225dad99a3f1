"""The scripts of languages, and the marks that belong to letters."""

import re
import unicodedata
from itertools import chain

from transformer_cli.config.languages import base_language, script_code

_LATIN, _CYRILLIC, _ARABIC, _DEVANAGARI = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",)
BY_SCRIPTS = {
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
_NO_SPACES = frozenset({"CJK", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"})
# Unicode has capital letters of the Georgian script, which no text begins a sentence with.
_HAVE_CASE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN"})
_SCRIPTS = {
    language: frozenset(scripts)
    for scripts, languages in BY_SCRIPTS.items()
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
SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Thai, Tibetan, Burmese, Khmer, kana and ideographs, as a range of characters: without spaces
between words, each character counts as one, in reports with its marks."""
# Where Unicode has marks of languages that are written today.
_MARKED = range(0x300, 0x1D00), range(0x302A, 0x309B), range(0xA66F, 0xAC00), range(0xFE20, 0xFE30)
_JOINERS = "\u200c\u200d"
MARKS = _JOINERS + "".join(
    character
    for character in map(chr, chain(*_MARKED))
    if unicodedata.category(character)[0] == "M"
)
"""Accents, signs of vowels, joiners of words: Python's ``\\w`` and ``isalnum`` leave them out."""


def scripts_of(language: str) -> frozenset[str] | None:
    """Return a language's scripts ('de', 'sr-Latn'), as Unicode names them; None: unknown."""
    script = _BY_CODE.get(script_code(language) or "")
    return _SCRIPTS.get(base_language(language)) if script is None else frozenset({script})


def has_spaces(language: str) -> bool:
    """Return whether words have spaces between them; true of an unknown language."""
    scripts = scripts_of(language) or frozenset()
    return "HANGUL" in scripts or not scripts & _NO_SPACES


def has_case(language: str) -> bool:
    """Return whether letters are large and small; true of an unknown language."""
    scripts = scripts_of(language)
    return scripts is None or bool(scripts & _HAVE_CASE)


def is_of_word(character: str) -> bool:
    """Return whether a character is a letter, a digit or a mark; false of none."""
    return character.isalnum() or (character != "" and character in MARKS)
