"""Sentences go into flat arrays and come out the same."""

import pytest
from hypothesis import given, settings, strategies as st
from letters import LettersFrom

from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.store import EncodedText, TokenArray, encode_pairs
from transformer_cli.text.protocol import Tokenizers

SENTENCES = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=8)


def contents(store: TokenArray) -> list[list[int]]:
    return [store[index].tolist() for index in range(len(store))]


def encoded(src_lengths: list[int], tgt_lengths: list[int]) -> EncodedText:
    """Sentence n holds nothing but the id n + 4."""
    sides = (
        TokenArray.from_sentences(
            [number] * length for number, length in enumerate(lengths, start=4)
        )
        for lengths in (src_lengths, tgt_lengths)
    )
    return EncodedText(*sides)


@settings(deadline=None)
@given(SENTENCES)
def test_a_store_gives_back_what_was_put_in(sentences: list[list[int]]) -> None:
    store = TokenArray.from_sentences(iter(sentences))
    assert len(store) == len(sentences)
    assert contents(store) == sentences
    assert store.lengths.tolist() == [len(sentence) for sentence in sentences]
    assert len(store.ids) == sum(map(len, sentences))


@pytest.mark.parametrize("sentences", [[], [[]], [[], [], []], [[], [7], []]])
def test_empty_sentences_are_sentences(sentences: list[list[int]]) -> None:
    store = TokenArray.from_sentences(sentences)
    assert len(store) == len(sentences)
    assert contents(store) == sentences


def test_each_side_is_encoded_by_its_own_tokenizer() -> None:
    text = encode_pairs(
        ParallelText(["ab", "b", ""], ["ba", "", "c"]).pairs(),
        Tokenizers(src=LettersFrom("a"), tgt=LettersFrom("A")),
    )
    assert contents(text.src) == [[0, 1], [1], []]
    assert contents(text.tgt) == [[33, 32], [], [34]]
