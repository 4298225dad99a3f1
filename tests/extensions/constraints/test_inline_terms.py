"""Terms in training: words of a source go with the words of its target that translate them."""

from pathlib import Path

import numpy as np
import pytest

from transformer_cli.config.data_schema import ToyData
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.kinds import load_split
from transformer_cli.data.store import EncodedText, encode_pairs
from transformer_cli.extensions.constraints.inline_terms import MOST_WORDS, InlineTerms, Lexicon
from transformer_cli.extensions.constraints.reserved import ReservedTokenizers, with_terms
from transformer_cli.extensions.constraints.terms import TermList, make_term
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.sentencepiece import SentencePieceTokenizer, learn_model

TOY = load_split(ToyData(kind="toy"), "train")
SETTINGS = SentencePieceConfig(kind="sentencepiece", vocab_size=500, byte_fallback=False)
MODEL = learn_model(SETTINGS, [*TOY.src[:500], *TOY.tgt[:500]], "text")
BASE = SentencePieceTokenizer(MODEL, False, Path("joint.model"))
BOTH = ReservedTokenizers.of(Tokenizers(BASE, BASE), ["printf"], ["news"], has_terms=True)
MARKS = BEFORE, BEHIND = tuple(BOTH.src.term_marks)


@pytest.fixture(scope="module")
def text() -> EncodedText:
    some = ParallelText(TOY.src[:1500], TOY.tgt[:1500])
    encoded = encode_pairs(some.pairs(), BOTH)
    return encoded.take(np.flatnonzero(np.minimum(*encoded.lengths) > 0))


@pytest.fixture(scope="module")
def terms(text: EncodedText) -> InlineTerms:
    return InlineTerms(BOTH.src, Lexicon.learn(text, BOTH.src.size), 0.4, 60)


def split(row: list[int]) -> tuple[list[str], list[str]]:
    """The texts of a source outside of terms, and the translations of these."""
    texts: list[str] = []
    translations: list[str] = []
    part: list[int] = []
    for number in [*row, BEFORE]:
        if number in MARKS:
            (translations if number == BEHIND else texts).append(BOTH.src.decode(part))
            part = []
        else:
            part.append(number)
    return texts, translations


def test_a_share_of_the_sources_has_terms_and_stays_the_same_else(
    text: EncodedText, terms: InlineTerms
) -> None:
    made = terms(text, seed=3)
    assert np.array_equal(made.tgt.ids, text.tgt.ids)
    having = 0
    for place in range(len(text)):
        row, tgt = made.src[place].tolist(), BASE.decode(text.tgt[place].tolist())
        assert len(row) <= terms.max_length
        texts, translations = split(row)
        rest = BASE.decode(text.src[place].tolist())
        for part in texts:  # in order, and nothing else
            assert part in rest
            rest = rest[rest.index(part) + len(part) :]
        assert bool(rest) is bool(translations and not texts[-1])
        having += bool(translations)
        for translation in translations:
            assert 1 <= len(translation.split()) <= MOST_WORDS + 1
            assert translation.lower() in tgt.lower()
    assert 0.3 * len(text) < having < 0.42 * len(text)


def test_a_seed_decides_the_terms(text: EncodedText, terms: InlineTerms) -> None:
    some = text.take(np.arange(50))
    first, again, other = (terms(some, seed).src.ids.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_words_go_with_their_translations(text: EncodedText, terms: InlineTerms) -> None:
    random = np.random.default_rng(3)
    pairs = [
        (BASE.decode(src[own].tolist()), BASE.decode(tgt[found].tolist()))
        for src, tgt in ((text.src[place], text.tgt[place]) for place in range(400))
        for own, found in terms.find_phrases(src, tgt, random)
    ]
    assert max(len(src.split()) for src, _ in pairs) == MOST_WORDS
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
    both = with_terms(BOTH, listed)
    source = both.encode_source(line)
    ids, values = source.ids, source.values
    assert values == ("%s",)
    assert [number for number in ids if number in MARKS] == [BEFORE, BEHIND] * 2
    assert split(ids)[1] == ["dog", "red ball"]
    tokens = both.source_tokens(source, ids)
    assert len(tokens) == len(ids)
    assert "".join(tokens).replace("▁", "") == line.replace(" ", "")
    assert BOTH.src.decode(ids).startswith("Ein dog")
    # Where subwords go on beyond a term, the parts of the line are encoded by themselves.
    other = with_terms(BOTH, TermList([make_term("Hund", ["dog"])]))
    within = other.encode_source("Hunde").ids
    assert within == BOTH.encode_source("Hunde").ids
    assert not set(BOTH.src.encode(line)) & set(MARKS)
    assert set(BOTH.src.source_ids) == {BOTH.tag_id("news"), *MARKS}
