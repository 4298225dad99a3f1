"""Lines that are unlike the training text are copied and reported, and cost no search."""

from dataclasses import replace
from typing import Any

import pytest
from inference.translators import NumberTokenizer, numbers, random_translator, searched

from extensions.revision.test_doubts import doubting
from transformer_cli.extensions.revision import doubts
from transformer_cli.extensions.revision.doubts import UNLIKE
from transformer_cli.extensions.revision.unlike_training import FEWEST_TOKENS, Sparing
from transformer_cli.inference.translation import EncodedLine, Translation
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


def sparing(tokenizer: NumberTokenizer) -> Any:
    translator = random_translator()
    tokenizers = Tokenizers(tokenizer, NumberTokenizer(), letterless=True)
    return replace(translator, tokenizers=tokenizers).extended_by(Sparing)


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
    ("line", "is_copied"),
    [
        ("Владимир", True),
        ("这是一个测试", True),
        ("这是", False),  # too short to tell its script
        ("αβαβαβ", False),  # the vocabulary has these letters
        ("ΑΒΑΒΑΒ", False),
        ("ein Владимир aus Kiew", False),  # most of its letters are Latin
    ],
)
def test_lines_in_an_unknown_script_are_copied(line: str, is_copied: bool) -> None:
    assert sparing(GreekTokens()).encode_line(line).is_copied == is_copied


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
