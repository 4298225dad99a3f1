"""Which scripts a language is written in, and which letters are of another one."""

import unicodedata

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
    ("TIBETAN",): "bo",
    ("CJK", "BOPOMOFO"): "yue zh",
    ("CJK", "HIRAGANA", "KATAKANA"): "ja",
    ("HANGUL", "CJK"): "ko",
}
_SCRIPTS = {
    language: frozenset(scripts)
    for scripts, languages in _BY_SCRIPTS.items()
    for language in languages.split()
}
# Characters' names begin with their script; some do not, as in 'MICRO SIGN', and are of none.
_NAMES = frozenset(name for scripts in _BY_SCRIPTS for name in scripts)
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")


def scripts_of(language: str) -> frozenset[str] | None:
    """The scripts that a language is written in, by the names that Unicode's characters begin with.

    Args:
        language: as in 'de' or 'pt-BR'; what follows the first part is not looked at.

    Returns:
        None for a language that is not known here.
    """
    return _SCRIPTS.get(language.replace("_", "-").partition("-")[0].lower())


def script_of(character: str) -> str | None:
    """The script of a letter; None for one of no script above, and for all that is no letter."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "")
    for width in _WIDTHS:
        name = name.removeprefix(width)
    first = name.partition(" ")[0].partition("-")[0]
    return first if first in _NAMES else None
