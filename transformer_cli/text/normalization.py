"""The rules by which ``tokenizer.normalization: nfc`` unifies characters."""

import unicodedata
from collections.abc import Iterator
from itertools import permutations
from unicodedata import ucd_3_2_0 as unicode_3_2

_LAST_COMPOSED = 0x2FA1D  # the last character that NFC changes


def nfc_rules() -> str:
    """Return the rules of ``tokenizer.normalization: nfc`` as SentencePiece reads them.

    Equal characters are spelled alike, white space is a space, and control characters are removed.
    Nothing else changes. The rules come from Unicode 3.2, which all versions of Python have, so
    that models do not depend on Python's version; later versions added characters to NFC only for
    a few ancient scripts.
    """
    rules = dict(_compositions())
    for character in map(chr, range(1, 0x3001)):
        if character.isspace() or character == "▁":  # SentencePiece's own sign for a space
            rules[character] = " "
        elif unicodedata.category(character) == "Cc":
            rules[character] = ""
    rules["\ufeff"] = ""  # a byte order mark, from files that were joined
    return "".join(f"{_hex(found)}\t{_hex(norm)}\n" for found, norm in sorted(rules.items()))


def _compositions() -> Iterator[tuple[str, str]]:
    """Yield each spelling that NFC changes, with what it becomes."""
    for character in map(chr, range(_LAST_COMPOSED + 1)):
        decomposed = unicode_3_2.normalize("NFD", character)
        if decomposed == character:
            continue
        norm = unicode_3_2.normalize("NFC", character)
        # Some of the marks may be composed already, and their order may be another.
        for marks in permutations(decomposed[1:]):
            spelled = decomposed[0] + "".join(marks)
            if unicode_3_2.normalize("NFC", spelled) == norm:
                for end in range(len(spelled) + 1):
                    found = unicode_3_2.normalize("NFC", spelled[:end]) + spelled[end:]
                    if found != norm:
                        yield found, norm


def _hex(text: str) -> str:
    return " ".join(f"{ord(character):X}" for character in text)
