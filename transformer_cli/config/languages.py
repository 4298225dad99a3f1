"""Normalize names of languages, given in BCP 47 (zh-Hant-TW) or POSIX form (zh_TW, sr@latin)."""

import re

PATTERN = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}(\.[A-Za-z0-9-]+)?(@[A-Za-z]{2,16})?$"
LONGEST = 35
"""Maximum characters of a name: enough for a language, a script, a region and variants."""

# ISO 639-2 and 639-3 codes of languages whose translations are scored in a special way.
_SHORT_CODES = {
    **dict.fromkeys(("zho", "chi", "cmn"), "zh"),
    **dict.fromkeys(("bod", "tib"), "bo"),
    **dict.fromkeys(("mya", "bur"), "my"),
    **{"jpn": "ja", "kor": "ko", "khm": "km", "lao": "lo", "tha": "th", "dzo": "dz"},
    **{"ara": "ar", "arb": "ar", "fas": "fa", "per": "fa", "heb": "he", "hin": "hi", "urd": "ur"},
}
_SCRIPT_MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva", "arabic": "Arab"}
_SCRIPT_MODIFIERS |= {"latn": "Latn", "ijekavianlatin": "Latn"}
# Languages and scripts (ISO 15924) without spaces between words, then those without capital
# letters. Unicode has Georgian capitals, but no text begins a sentence with one.
_SPACELESS = "bo dz ja km lo my th yue zh Khmr Laoo Mymr Thai Tibt"
_CASELESS = (
    f"{_SPACELESS} am ar as bn ckb fa gu he hi ka kn ko ml mr ne or pa ps sa sd si ta te ti ug ur "
    "yi Arab Beng Deva Ethi Geor Gujr Guru Hebr Knda Mlym Orya Sinh Taml Telu"
)
_CASED = ("Armn", "Cyrl", "Grek", "Latn")


def normalize_language(name: str) -> str | None:
    """Return a language's name in the usual form of BCP 47, e.g. 'sr-Latn'; None if invalid.

    A character set ('.UTF-8') is dropped.
    """
    if len(name) > LONGEST or re.fullmatch(PATTERN, name) is None:
        return None
    name, _, modifier = name.partition("@")
    language, *parts = re.split("[-_]", name.partition(".")[0])
    parts = [_normalize_subtag(part) for part in parts]
    modifier = modifier.lower()
    if modifier in _SCRIPT_MODIFIERS:
        parts.insert(0, _SCRIPT_MODIFIERS[modifier])
    elif 5 <= len(modifier) <= 8:  # the length of variants, so not 'euro'
        parts.append(modifier)
    return "-".join((language.lower(), *parts))


def _normalize_subtag(part: str) -> str:
    if len(part) == 2:
        return part.upper()  # a region
    return part.title() if len(part) == 4 and part.isalpha() else part.lower()


def base_language(name: str) -> str:
    """Return a language's code without script or region: 'zh' for 'zh-TW', 'zh_Hans' and 'cmn'."""
    code = re.split(r"[-_.@]", name.strip(), maxsplit=1)[0].lower()
    return _SHORT_CODES.get(code, code)


def script_code(name: str) -> str | None:
    """Return the ISO 15924 script in a language's name, e.g. 'Latn' for 'sr@latin', or None."""
    _, *parts = (normalize_language(name) or "").split("-")
    return next((part for part in parts if len(part) == 4 and part.isalpha()), None)


def has_spaces(name: str) -> bool:
    """Return whether a language has spaces between words; True for an unknown one."""
    return _script_or_language(name) not in _SPACELESS.split()


def has_case(name: str) -> bool:
    """Return whether a language has capital letters; True for an unknown one."""
    return _script_or_language(name) not in _CASELESS.split()


def _script_or_language(name: str) -> str:
    script = script_code(name) or ""
    return script if script in (*_CASED, *_CASELESS.split()) else base_language(name)
