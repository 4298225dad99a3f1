"""Lines in all forms: the n best, cut lines, and those that are copied."""

from dataclasses import dataclass, replace

import pytest

from inference.translators import LINES, NumberTokenizer, numbers, random_translator, searched
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.inference.translation import Translation
from transformer_cli.text.protocol import Tokenizers


@pytest.mark.parametrize("n_best", [1, 2, 9])
def test_the_n_best_come_with_falling_scores(n_best: int) -> None:
    translator = random_translator(end_bias=4.0).with_search(beam_size=3)
    lines = ["", *LINES]
    found = translator.translate_lines(lines, n_best=n_best)
    assert [each[0].text for each in found] == translator.translate(lines)
    assert [(each.text, each.score) for each in found[0]] == [("", 0.0)]
    assert max(map(len, found)) == min(3, n_best)
    for of_line in found:
        assert [each.score for each in of_line] == sorted((e.score for e in of_line), reverse=True)


def test_the_n_best_of_cut_lines_come_with_falling_scores() -> None:
    translator = random_translator(end_bias=4.0, positions="learned").with_search(beam_size=4)
    decoding = translator.decoding.model_copy(update={"length_penalty": 3.0})
    translator = replace(translator, decoding=decoding)
    lines = [numbers(count) for count in range(12, 40)]
    found = translator.translate_lines(lines, n_best=4)
    assert [each[0].text for each in found] == translator.translate(lines)
    scores = [[each.score for each in of_line] for of_line in found]
    assert scores == [sorted(of_line, reverse=True) for of_line in scores]
    (line, *_), (piece, *_) = translator.translate_lines([numbers(12), numbers(6)])
    assert line.score == pytest.approx(2 * piece.score)


# --- lines that are their own translation ---------------------------------------------------------

WORDLESS = [
    *("12345", "---", "2024-01-05", "\u200b", "\ufeff\u2060", "½ ²"),
]


@dataclass(frozen=True)
class Letters(NumberTokenizer):
    """Every line has the same ids."""

    def encode(self, line: str) -> list[int]:
        return [5, 6]


def letters_translator() -> TorchTranslator:
    letters = Letters()
    translator = random_translator().with_search(max_length=4)
    return replace(translator, tokenizers=Tokenizers(letters, letters))


def test_lines_without_words_are_copied_and_not_searched() -> None:
    translator = letters_translator()
    assert translator.translate([*WORDLESS, " 7 ", " "]) == [*WORDLESS, "7", ""]
    assert searched(translator) == 0
    (found,) = translator.translate_lines(["3 - 4"], n_best=2)
    assert found == [Translation("3 - 4")]
    words = ["Ein Hund", "12 km", "%d Hunde"]
    assert not set(translator.translate(words)) & set(words)
    assert searched(translator) == len(words)


class Naming(Tokenizers):
    """Has something to translate in '24/7'."""

    def has_words(self, line: str) -> bool:
        return line == "24/7" or super().has_words(line)


def test_tokenizers_say_what_has_words() -> None:
    translator = letters_translator()
    tokenizers = Naming(translator.tokenizers.src, translator.tokenizers.tgt)
    translator = replace(translator, tokenizers=tokenizers)
    named, other = translator.translate(["24/7", "24/8"])
    assert named != "24/7"
    assert other == "24/8"


def test_a_model_of_lines_without_letters_translates_them_but_no_invisible_ones() -> None:
    translator = random_translator().with_search(max_length=4)
    assert translator.translate(["5 6", "\u200b"])[1] == "\u200b"
    assert searched(translator) == 1
