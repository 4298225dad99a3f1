"""Terms in training: words of a source go with the words of its target that translate them."""

from pathlib import Path

import numpy as np
import pytest

from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.inline_terms import MOST_WORDS, InlineTerms
from transformer_cli.data.lexicon import Lexicon
from transformer_cli.data.sources import load_split
from transformer_cli.data.token_arrays import EncodedText, encode_text
from transformer_cli.text.kinds.sentencepiece import SentencePieceTokenizer, learn_model
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.reserved import ReservedTokenizers
from transformer_cli.text.terms import TermList, make_term

TOY = load_split(ToyData(kind="toy"), "train")
SETTINGS = SentencePieceConfig(kind="sentencepiece", vocab_size=500, byte_fallback=False)
MODEL = learn_model(SETTINGS, [*TOY.src[:500], *TOY.tgt[:500]], "text", lambda lines, _: lines)
BASE = SentencePieceTokenizer(MODEL, False, Path("joint.model"))
BOTH = ReservedTokenizers.of(Tokenizers(BASE, BASE), ["printf"], ["news"], has_terms=True)
MARKS = BEFORE, BETWEEN, BEHIND = tuple(BOTH.src.term_marks)


@pytest.fixture(scope="module")
def text() -> EncodedText:
    some = ParallelText(TOY.src[:1500], TOY.tgt[:1500])
    encoded = encode_text(some, BOTH, lambda lines, _: lines)
    return encoded.take(np.flatnonzero(np.minimum(*encoded.lengths) > 0))


@pytest.fixture(scope="module")
def terms(text: EncodedText) -> InlineTerms:
    return InlineTerms(BOTH.src, Lexicon.learn(text, BOTH.src.size), 0.4, 60)


def without_terms(row: list[int]) -> list[int]:
    """A source without marks, and without what is between the second and the third."""
    kept, is_translation = [], False
    for number in row:
        is_translation = (is_translation or number == BETWEEN) and number != BEHIND
        if not is_translation and number not in MARKS:
            kept.append(number)
    return kept


def put_terms(row: list[int]) -> list[tuple[str, str]]:
    """The terms of a source and their translations, as text."""
    parts = " ".join(map(str, row)).split(f"{BEFORE} ")[1:]
    sides = [part.split(f" {BEHIND}")[0].split(f" {BETWEEN} ") for part in parts]
    return [
        (BASE.decode([*map(int, src.split())]), BASE.decode([*map(int, tgt.split())]))
        for src, tgt in sides
    ]


def test_a_share_of_the_sources_has_terms_and_stays_the_same_else(
    text: EncodedText, terms: InlineTerms
) -> None:
    made = terms(text, seed=3)
    assert np.array_equal(made.tgt.ids, text.tgt.ids)
    having = 0
    for place in range(len(text)):
        row, tgt = made.src[place].tolist(), BASE.decode(text.tgt[place].tolist())
        assert without_terms(row) == text.src[place].tolist()
        assert len(row) <= terms.max_length
        found = put_terms(row)
        having += bool(found)
        for src, translation in found:
            assert 1 <= len(src.split()) <= MOST_WORDS
            assert 1 <= len(translation.split()) <= MOST_WORDS + 1
            assert translation.lower() in tgt.lower()
    assert 0.3 * len(text) < having < 0.42 * len(text)


def test_a_seed_decides_the_terms(text: EncodedText, terms: InlineTerms) -> None:
    some = text.take(np.arange(50))
    first, again, other = (terms(some, seed).src.ids.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_words_go_with_their_translations(text: EncodedText, terms: InlineTerms) -> None:
    made = terms(text, seed=3)
    pairs = [pair for row in range(len(made)) for pair in put_terms(made.src[row].tolist())]
    of_dog = [tgt for src, tgt in pairs if src == "Hund"]
    assert len(of_dog) > 5
    assert of_dog.count("dog") > 0.95 * len(of_dog)
    assert not {"ein", "die", "zwei"} & {src for src, _ in pairs}


def test_text_that_nothing_was_learned_of_stays_as_it_is(text: EncodedText) -> None:
    lexicon = Lexicon.learn(text.take(np.arange(0)), BOTH.src.size)
    made = InlineTerms(BOTH.src, lexicon, 1.0, 60)(text.take(np.arange(9)), seed=1)
    assert np.array_equal(made.src.ids, text.take(np.arange(9)).src.ids)


def test_terms_in_use_are_where_they_are_in_training() -> None:
    listed = TermList([make_term("Hund*", ["dog"]), make_term("roten Ball", ["red ball"])])
    line = "Ein Hund, ein %s und ein roten Ball."
    ids, values = BOTH.encode_source(line, listed)
    assert values == ("%s",)
    assert without_terms(ids) == BOTH.encode_source(line).ids
    assert put_terms(ids) == [("Hund", "dog"), ("roten Ball", "red ball")]
    tokens = BOTH.source_tokens(line, ids, listed)
    assert "".join(tokens).replace("▁", "") == "Ein" + "Hund,ein%sundeinrotenBall."
    assert BOTH.src.decode(ids).startswith("Ein Hund")
    assert not set(BOTH.src.encode(line)) & set(MARKS)
    assert set(BOTH.src.source_ids) == {BOTH.tag_id("news"), *MARKS}


def test_without_marks_terms_are_slots() -> None:
    slots = ReservedTokenizers.of(Tokenizers(BASE, BASE), ["printf"], [])
    listed = TermList([make_term("Hund*", ["dog"]), make_term("s", ["x"])])
    line = "Hunde, ein %s und ein Hund"
    ids, values = slots.encode_source(line, listed)
    assert values == ("dog", "%s")
    # The same slot twice, and nothing within a placeholder.
    assert slots.src.count_slots(ids) == {0: 2, 1: 1}
    assert slots.tgt.detokenize(ids, slots.tgt.filled_tokens(ids, values)) == (
        "dog, ein %s und ein dog"
    )
    assert [each for each in slots.source_tokens(line, ids, listed) if each in line.split()] == [
        "%s",
        "Hund",
    ]
