"""Find characters in the training text that new tokenizers change or lose. It runs by default."""

import unicodedata
from collections.abc import Iterable

from transformer_cli.config.tokenizer_schema import TokenizerConfig
from transformer_cli.text.protocol import Tokenizer

_CONTEXT = 8  # characters on either side of the tested one
_MOST_NAMED = 8


def describe_lost_characters(
    config: TokenizerConfig, sides: Iterable[tuple[Tokenizer, Iterable[str]]]
) -> str | None:
    """Return a message about characters that each side's tokenizer changes or loses in its lines.

    Whitespace and ASCII characters are not tested. If all characters survive, return None.
    """

    def fold(text: str) -> str:  # ignores changes that the tokenizer makes on purpose
        return unicodedata.normalize("NFC", text.lower() if config.lowercase else text)

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
    is_nfkc = getattr(config, "normalization", "").endswith("nfkc")
    advice = "; set tokenizer.normalization to nfc to keep what NFKC changes" if is_nfkc else ""
    return f"changes or loses characters of the training text: {named}{others}{advice}"


def _contexts(lines: Iterable[str]) -> dict[str, str]:
    """Map each character that is neither ASCII nor whitespace to the text around it."""
    found: dict[str, str] = {}
    for line in lines:
        if not line.isascii():
            for character in set(line) - found.keys():
                if not character.isascii() and not character.isspace():
                    place = line.index(character)
                    found[character] = line[max(0, place - _CONTEXT) : place + _CONTEXT + 1]
    return found


def _name(character: str) -> str:
    name = f"'{character}'" if character.isprintable() else unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".rstrip()
