"""Lines in all forms: the n best, given starts, alignments, unknown words, cut lines."""

from collections import Counter
from dataclasses import dataclass, replace

import pytest
import torch
from scarce_memory import allow_rows

from inference.translators import LINES, NumberTokenizer, numbers, random_translator, searched
from transformer_cli.inference.alignment import map_tokens_to_words
from transformer_cli.inference.torch_engine import TorchTranslator
from transformer_cli.inference.translation import Translation
from transformer_cli.model.transformer import record_attention
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID


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


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_begin_with_their_prefixes_whatever_the_batch(beam_size: int) -> None:
    translator = random_translator().with_search(beam_size=beam_size, max_length=6)
    prefixes = ["9 4", "", " 7 ", "5 5 5", "", "12", "8"]
    together = translator.translate_lines(LINES, prefixes)
    for line, prefix, (best, *_) in zip(LINES, prefixes, together, strict=True):
        assert best.text.split()[: len(prefix.split())] == prefix.split()
        assert translator.translate_lines([line], [prefix])[0][0].text == best.text
    assert translator.translate_lines(LINES, [""] * 7) == translator.translate_lines(LINES)


def test_the_first_words_of_a_translation_lead_to_it() -> None:
    translator = random_translator().with_search(max_length=6)
    whole = translator.translate(LINES)
    starts = [" ".join(text.split()[:2]) for text in whole]
    assert [best.text for best, *_ in translator.translate_lines(LINES, starts)] == whole


def test_a_prefix_starts_a_long_line_once_and_leaves_a_blank_one_blank() -> None:
    translator = random_translator(positions="learned")
    (long,), (blank,) = translator.translate_lines([numbers(30), " "], ["9 9", "9 9"])
    assert long.text.startswith("9 9 ")
    assert blank.text == ""


def test_alignments_are_where_the_mean_of_all_heads_looks_most() -> None:
    translator = random_translator().with_search(max_length=6)
    found = translator.translate_lines(LINES, with_alignments=True)
    for line, (best, *_) in zip(LINES, found, strict=True):
        ids = [int(word) for word in best.text.split()]
        src, tgt_in = [int(word) for word in line.split()], [BOS_ID, *ids[:-1]]
        with torch.inference_mode(), record_attention(translator.engine.model) as recorded:
            translator.engine.model.hidden_states(
                torch.tensor([[*src, EOS_ID]]), torch.tensor([tgt_in])
            )
        layers = [calls[0][0] for name, calls in recorded.items() if "cross_attention" in name]
        cross = torch.stack(layers).mean(dim=(0, 1))
        aligned = cross[:, :-1].argmax(dim=1).tolist()
        assert best.alignment == tuple(sorted((src, tgt) for tgt, src in enumerate(aligned)))
    assert Counter(bool(best.alignment) for best, *_ in found)[True] >= 5, "the case is too easy"


def test_alignments_of_a_cut_line_are_those_of_its_pieces() -> None:
    translator = random_translator(positions="learned")
    (whole,), (piece,) = translator.translate_lines([numbers(12), numbers(6)], with_alignments=True)
    length = len(piece.text.split())
    second = [(src + 6, tgt + length) for src, tgt in piece.alignment]
    assert list(whole.alignment) == sorted([*piece.alignment, *second])


def test_empty_translations_are_aligned_to_nothing() -> None:
    engine = random_translator().engine
    found = engine.align([[5, EOS_ID], [5, 6, EOS_ID]], [[], [7]], 9)
    assert [len(each) for each in found] == [0, 1]
    assert engine.align([], [], 9) == []


def test_a_batch_that_does_not_fit_is_aligned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = random_translator().engine
    sources = [[5 + number, 6, 7, EOS_ID] for number in range(5)]
    targets = [[7, 6 + number] for number in range(5)]
    expected = engine.align(sources, targets, 99)
    encoded = allow_rows(monkeypatch, 2)
    assert engine.align(sources, targets, 99) == expected
    assert encoded == [2, 1, 2]


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("Ein Hund schläft.", ["▁Ein", "▁Hu", "nd", "▁schläft", "."], [0, 1, 1, 2, 2]),
        ("ein Hund, ja", ["ein", "hund", ",", "ja"], [0, 1, 1, 2]),
        ("¾ Ｌiter ﬁn", ["▁3⁄4", "▁", "L", "iter", "▁fin"], [0, 1, 1, 1, 2]),
        (
            "a 🐶 b",
            ["▁a", "▁", "<0xF0>", "<0x9F>", "<0x90>", "<0xB6>", "▁b"],
            [0, 1, 1, 1, 1, 1, 2],
        ),
        ("so " + "漢" * 40 + " da .", ["▁so", "▁", "<unk>", "▁da", "▁."], [0, 1, 1, 2, 3]),
        ("a\u00a0b\u3000c", ["▁a", "▁b", "▁c"], [0, 1, 2]),
        ("", ["▁"], []),
    ],
)
def test_tokens_are_found_in_words(text: str, tokens: list[str], expected: list[int]) -> None:
    assert map_tokens_to_words(text, tokens) == expected


# --- lines that are their own translation ---------------------------------------------------------

WORDLESS = [
    *("12345", "---", "2024-01-05", "https://example.org/a", "a.b@example.org", "%s", "\u200b"),
    *("\ufeff\u2060", "½ ²"),
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
    (found,) = translator.translate_lines(["3 - 4"], n_best=2, with_alignments=True)
    assert found == [Translation("3 - 4", 0.0, 0.0, ((0, 0), (1, 1), (2, 2)), 0)]
    words = ["Ein Hund", "12 km", "%d Hunde"]
    assert not set(translator.translate(words)) & set(words)
    assert searched(translator) == len(words)


class Naming(Tokenizers):
    """Has something to translate in '24/7'."""

    def has_words(self, line: str) -> bool:
        return line == "24/7" or super().has_words(line)


def test_what_a_user_forces_is_in_a_line_without_words_too() -> None:
    translator = letters_translator()
    (forced,), (blank,) = translator.translate_lines(["24/7", "\u200b"], ["9", "9"])
    assert forced.text.startswith("9")
    assert blank.text == "\u200b"
    tokenizers = Naming(translator.tokenizers.src, translator.tokenizers.tgt)
    translator = replace(translator, tokenizers=tokenizers)
    named, other = translator.translate(["24/7", "24/8"])
    assert named != "24/7"
    assert other == "24/8"


def test_a_model_of_lines_without_letters_translates_them_but_no_invisible_ones() -> None:
    translator = random_translator().with_search(max_length=4)
    assert translator.translate(["5 6", "\u200b"])[1] == "\u200b"
    assert searched(translator) == 1
