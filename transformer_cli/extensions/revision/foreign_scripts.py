"""Look up the scripts of languages and letters, and closely related languages."""

import unicodedata
from functools import cache, lru_cache

from transformer_cli.config.languages import base_language, script_code

_LANGUAGES = {
    "LATIN": "af az bs ca cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr hu id ig is it "
    "ku la lb lt lv ms mt nb nl nn no oc pl pt ro sk sl so sq sv sw tl tr vi xh yo zu",
    "CYRILLIC": "be bg ky mk mn ru tg uk",
    "CYRILLIC LATIN": "kk sr uz",
    "ARABIC": "ar ckb fa ps sd ug ur",
    "DEVANAGARI": "hi mr ne sa",
    "GREEK": "el",
    "HEBREW": "he yi",
    "ARMENIAN": "hy",
    "GEORGIAN": "ka",
    "ETHIOPIC": "am ti",
    "BENGALI": "as bn",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "KHMER": "km",
    "MYANMAR": "my",
    "TIBETAN": "bo dz",
    "CJK BOPOMOFO": "yue zh",
    "CJK HIRAGANA KATAKANA": "ja",
    "HANGUL CJK": "ko",
}
"""Language codes, keyed by the Unicode names of their scripts."""
_SCRIPTS = {
    language: frozenset(scripts.split())
    for scripts, languages in _LANGUAGES.items()
    for language in languages.split()
}
# ISO 15924 codes of scripts in which languages may also be written, as in 'sr-Latn'.
_BY_CODE = {"Latn": "LATIN", "Cyrl": "CYRILLIC", "Arab": "ARABIC", "Deva": "DEVANAGARI"}
# The Unicode name of a letter starts with its script, with exceptions such as 'MICRO SIGN'.
_NAMES = frozenset(" ".join(_LANGUAGES).split())
_CLOSE = ("no nb nn da", "bs cnr hr sr", "cs sk", "gl pt", "id ms")


@cache
def scripts_of(language: str) -> frozenset[str] | None:
    """Return the Unicode names of the scripts of a language such as 'sr-Latn'; None if unknown."""
    script = _BY_CODE.get(script_code(language) or "")
    return _SCRIPTS.get(base_language(language)) if script is None else frozenset({script})


def are_close(first: str, second: str) -> bool:
    """Return whether many sentences are the same in two languages, as in nb and nn or pt and pt-BR.

    Languages without a common script are never close, e.g. sr-Cyrl and sr-Latn.
    """
    scripts, others = scripts_of(first), scripts_of(second)
    if scripts and others and scripts.isdisjoint(others):
        return False
    one, other = base_language(first), base_language(second)
    return one == other or any({one, other} <= set(group.split()) for group in _CLOSE)


@lru_cache(1 << 16)
def script_of(character: str) -> str | None:
    """Return a letter's script; None if it is unknown or the character is not a letter."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    first = name.partition(" ")[0].partition("-")[0]
    return first if first in _NAMES else None
