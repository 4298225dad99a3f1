"""Alignments: where the attention of a model looks most, word by word."""

from collections import Counter

import pytest
import torch
from inference.test_lines import letters_translator
from inference.translators import LINES, numbers, random_translator
from scarce_memory import allow_rows
from stand_in_gpu import gpu, to_gpu
from test_devices import batch, config, model_of

from transformer_cli.extensions.alignments.aligning import (
    align_tokens,
    find_most_attended,
    with_alignments,
)
from transformer_cli.extensions.alignments.word_links import map_tokens_to_words
from transformer_cli.inference.translation import Translation
from transformer_cli.model.transformer import record_attention
from transformer_cli.text.protocol import BOS_ID, EOS_ID

__all__ = ["gpu"]


def test_alignments_are_where_the_mean_of_all_heads_looks_most() -> None:
    translator = random_translator().with_search(max_length=6)
    found = with_alignments(translator).translate_lines(LINES)
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
    translator = with_alignments(random_translator(positions="learned"))
    (whole,), (piece,) = translator.translate_lines([numbers(12), numbers(6)])
    length = len(piece.text.split())
    second = [(src + 6, tgt + length) for src, tgt in piece.alignment]
    assert list(whole.alignment) == sorted([*piece.alignment, *second])


def test_empty_translations_are_aligned_to_nothing() -> None:
    engine = random_translator().engine
    found = align_tokens(engine, [[5, EOS_ID], [5, 6, EOS_ID]], [[], [7]], 9)
    assert [len(each) for each in found] == [0, 1]
    assert align_tokens(engine, [], [], 9) == []


def test_a_batch_that_does_not_fit_is_aligned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = random_translator().engine
    sources = [[5 + number, 6, 7, EOS_ID] for number in range(5)]
    targets = [[7, 6 + number] for number in range(5)]
    expected = align_tokens(engine, sources, targets, 99)
    encoded = allow_rows(monkeypatch, 2)
    assert align_tokens(engine, sources, targets, 99) == expected
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


def test_a_line_that_is_copied_is_aligned_word_by_word() -> None:
    (found,), (blank,) = with_alignments(letters_translator()).translate_lines([" 3 - 4 ", ""])
    assert found == Translation("3 - 4", alignment=((0, 0), (1, 1), (2, 2)))
    assert blank == Translation("")


def test_tokens_are_aligned_where_the_model_is(gpu: torch.device) -> None:
    model = model_of(config()).to(gpu).eval()
    on_gpu = to_gpu(batch())
    with torch.inference_mode():
        found = find_most_attended(model, on_gpu.src, on_gpu.tgt_in)
    assert found.device == gpu
