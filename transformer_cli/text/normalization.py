"""What tokenizers do to characters: the rules of ``nfc``, and a check of which ones survive."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from unicodedata import ucd_3_2_0 as unicode_3_2

from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.text.protocol import Tokenizer

_CONTEXT = 8  # characters on either side of one that is tried
_MOST_NAMED = 8
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


def describe_lost_characters(
    config: TokenizerConfig, sides: Iterable[tuple[Tokenizer, Iterable[str]]]
) -> str | None:
    """Return which characters tokenizers change or lose in the text given with each of them.

    White space and ASCII are left out. None: all characters survive.
    """
    fold = _folding(config)
    lost: dict[str, None] = {}
    for tokenizer, lines in sides:
        for character, context in _contexts(lines).items():
            expected, decoded = fold(context), fold(tokenizer.decode(tokenizer.encode(context)))
            if any(decoded.count(each) < expected.count(each) for each in fold(character)):
                lost[character] = None
    if not lost:
        return None
    named = ", ".join(map(_name, sorted(lost)[:_MOST_NAMED]))
    others = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    is_nfkc = not config.files and getattr(config, "normalization", "").endswith("nfkc")
    advice = "; set tokenizer.normalization to nfc to keep what NFKC changes" if is_nfkc else ""
    return f"changes or loses characters of the training text: {named}{others}{advice}"


def _contexts(lines: Iterable[str]) -> dict[str, str]:
    """Return each character that is neither ASCII nor white space, with the text around one."""
    found: dict[str, str] = {}
    for line in lines:
        if not line.isascii():
            for character in set(line) - found.keys():
                if not character.isascii() and not character.isspace():
                    place = line.index(character)
                    found[character] = line[max(0, place - _CONTEXT) : place + _CONTEXT + 1]
    return found


def _folding(config: TokenizerConfig) -> Callable[[str], str]:
    """Return what makes texts equal that differ only as the settings ask for."""
    lowercase, strip_accents = config.lowercase, getattr(config, "strip_accents", False)

    def fold(text: str) -> str:
        text = text.lower() if lowercase else text
        if strip_accents:
            text = "".join(
                each
                for each in unicodedata.normalize("NFD", text)
                if unicodedata.category(each) != "Mn"
            )
        return unicodedata.normalize("NFC", text)

    return fold


def _name(character: str) -> str:
    shown = f" '{character}'" if character.isprintable() else ""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}{shown or f' {name}'}".rstrip()
