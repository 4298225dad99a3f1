"""Lines that are unlike the training text are copied and reported, and cost no search."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from inference.translators import NumberTokenizer, numbers, random_translator, searched

from extensions.revision.test_doubts import doubting
from transformer_cli.extensions.revision import doubts
from transformer_cli.extensions.revision.doubts import UNLIKE
from transformer_cli.extensions.revision.unlike_training import FEWEST_TOKENS, Sparing
from transformer_cli.inference.translation import EncodedLine, Translation
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.text.protocol import EncodedSource, Tokenizers


class LongTokens(NumberTokenizer):
    """A token for each character; but its tokens are long, as those of ordinary subwords."""

    def encode(self, line: str) -> list[int]:
        return [5 + ord(letter) % 8 for letter in line]

    def token(self, number: int) -> str:
        return "▁..." if number == 5 + ord(".") % 8 else f"▁long{number}"


class GreekTokens(LongTokens):
    """Tokens of Greek letters."""

    def token(self, number: int) -> str:
        return "▁αβ"


class Bytes(LongTokens):
    """Tokens of bytes, and some of one letter."""

    def token(self, number: int) -> str:
        return f"<0x{number:02X}>" if number > 6 else "a"


def sparing(
    tokenizer: NumberTokenizer,
    src_lang: str = "de",
    kinds: Sequence[type[TextTranslator[Any]]] = (Sparing,),
) -> Any:
    translator = random_translator()
    config = translator.config
    data = config.data.model_copy(update={"src_lang": src_lang})
    translator = replace(translator, config=config.model_copy(update={"data": data}))
    tokenizers = Tokenizers(tokenizer, NumberTokenizer(), letterless=True)
    made: Any = replace(translator, tokenizers=tokenizers)
    for kind in kinds:
        made = made.extended_by(kind)
    return made


LINE = "abcdefghijklmnopqrstuvwxyz" * 2


@pytest.mark.parametrize(
    ("tokenizer", "line", "is_copied"),
    [
        (LongTokens(), LINE, True),
        (LongTokens(), LINE[: FEWEST_TOKENS - 1], False),
        (LongTokens(), "abcde" + "." * 49, False),  # punctuation has short tokens in any text
        (Bytes(), LINE, False),
        (NumberTokenizer(), "5 6 7 8 9 10 11 12 " * 4, False),  # each token is short anyway
        (NumberTokenizer(), numbers(50), True),
        (NumberTokenizer(), numbers(49), False),
    ],
)
def test_lines_of_many_tokens_are_copied(
    tokenizer: NumberTokenizer, line: str, is_copied: bool
) -> None:
    translator = sparing(tokenizer)
    encoded = translator.encode_line(line)
    assert encoded.is_copied == is_copied
    (found,) = translator.translate([line])
    assert (found == line.strip()) == is_copied
    assert searched(translator) == (not is_copied)


@pytest.mark.parametrize(
    ("language", "line", "is_copied"),
    [
        ("de", "Владимир", True),
        ("de", "这是", True),
        ("de", "Der Präsident Владимир Путин", False),  # German letters belong to the language
        ("de", "αβαβαβ", False),  # the vocabulary has these letters
        ("de", "ΑΒΑΒΑΒ", False),
        ("el", "αβ <span class='button'>βα</span> https://example.org/long/path", False),
        ("el", "αβαβαβ Samsung Galaxy", False),
        ("el", "Samsung Galaxy", True),
        ("el", "γδ", False),  # rare letters of the language
        ("chr", "γδ", False),  # a language whose scripts we don't know
    ],
)
def test_lines_in_unknown_letters_are_copied(language: str, line: str, is_copied: bool) -> None:
    assert sparing(GreekTokens(), language).encode_line(line).is_copied == is_copied


class OtherLine(EncodedLine):
    """A line that another extension encodes, e.g. with a prefix."""


class EncodingAll(TextTranslator[Any]):
    """A translator that makes such lines."""

    def encode_line(self, text: str) -> EncodedLine:
        line = super().encode_line(text)
        return OtherLine(line.text, line.source, line.pieces)


def test_lines_with_more_to_translate_are_not_copied() -> None:
    line = "Владимир"
    assert sparing(GreekTokens()).encode_line(line).is_copied
    assert not sparing(GreekTokens(), kinds=(EncodingAll, Sparing)).encode_line(line).is_copied


def test_copied_lines_are_reported_and_not_searched_again() -> None:
    translator = doubting(sparing(LongTokens()))
    ((best,),) = translator.translate_lines([LINE])
    assert (best.text, best.remark) == (LINE, UNLIKE)
    assert searched(translator) == 0


def test_only_so_many_tokens_are_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(doubtful: int, fewest: int, written: int = 8) -> int:
        monkeypatch.setattr(doubts, "_FEWEST_TOKENS", fewest)
        lines = [EncodedLine("", EncodedSource("", []), [[5] * 10]) for _ in range(64)]
        whys = ["repeats itself"] * doubtful + [""] * (len(lines) - doubtful)
        found = [[Translation("", tokens=written)] for _ in lines]
        return len(doubts._choose(lines, found, whys))

    assert choose(3, fewest=1) == 3
    assert choose(64, fewest=1) == 4
    assert choose(64, fewest=1, written=20) == 2  # a long translation takes longer
    assert choose(64, fewest=100) == 10
