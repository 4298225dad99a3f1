"""Slots and tags in use: placeholders come from the source, tags stand before each chunk."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import pytest
from inference.translators import MAX_POSITIONS, ByBeam, random_translator, translate_stream

from transformer_cli.base.errors import UsageError
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.alignments.aligning import with_alignments, with_unk_replacement
from transformer_cli.extensions.constraints.reserved import (
    SLOTS,
    ReservedTokenizers,
    with_terms,
)
from transformer_cli.extensions.constraints.search_again import SECOND_BEAM
from transformer_cli.extensions.constraints.terms import TermList, make_term
from transformer_cli.extensions.corpora.tagged_line import TaggedLine
from transformer_cli.extensions.report.run_page import compute_attention_maps
from transformer_cli.extensions.revision.doubts import DoubtFinder, Doubts
from transformer_cli.inference.engine import Hypothesis
from transformer_cli.inference.translator import Watcher
from transformer_cli.text.protocol import UNK_ID, Tokenizers
from transformer_cli.text.words import SpacyWords, Vocabulary, WordsTokenizer

_WORDS = WordsTokenizer(SpacyWords("xx", "de", lowercase=False), Vocabulary("abcdefghij"))
JOINER = _WORDS.size
SLOT = range(JOINER + 1, JOINER + 1 + SLOTS)
NEWS = SLOT[-1] + 1


def slots_translator(favoured: Sequence[int] = (), **settings: Any) -> TorchTranslator:
    """A translator of words, placeholders and tags; as it is random, it writes slots at random."""
    words = Tokenizers(_WORDS, _WORDS)
    both = ReservedTokenizers.of(words, ["printf", "braces"], ["news", "web"])
    translator = random_translator(favoured, size=both.src.size, **settings)
    return replace(translator, tokenizers=both).with_search(max_length=5)


def tagged(translator: TorchTranslator, tag: str) -> TorchTranslator:
    return replace(translator, tokenizers=translator.tokenizers.tagged(tag))


def keeping_to(translator: TorchTranslator, terms: TermList) -> TorchTranslator:
    return replace(translator, tokenizers=with_terms(translator.tokenizers, terms))


def test_slots_are_written_as_what_the_source_has() -> None:
    translator = slots_translator([SLOT[1]])
    assert translator.translate(["{x} a %s", "a %d", ""]) == ["%s %s %s %s %s", "", ""]
    joined = slots_translator([JOINER])
    assert joined.translate(["a"]) == [""]


def test_the_n_best_of_a_line_have_its_placeholders() -> None:
    translator = slots_translator([SLOT[0]]).with_search(beam_size=3)
    first, second = translator.translate_lines(["{x} a", "{y} a"], n_best=3)
    assert [each.text.replace("x", "y") for each in first] == [each.text for each in second]
    assert all("{x}" in each.text for each in first)


def test_alignments_count_placeholders_as_words() -> None:
    translator = slots_translator([SLOT[0]])
    (best,), *_ = with_alignments(translator).translate_lines(["a {x} b"])
    assert best.text == "{x} {x} {x} {x} {x}"
    assert {tgt for _, tgt in best.alignment} <= set(range(5))
    assert {src for src, _ in best.alignment} <= set(range(3))


def test_unknown_words_are_not_replaced_by_tags_or_joiners() -> None:
    translator = tagged(with_unk_replacement(slots_translator([UNK_ID])), "news")
    for line in ("a", "{x}:b", "Xaver %s."):
        (best,), *_ = with_alignments(translator).translate_lines([line])
        assert len(best.text) >= 5
        assert "news" not in best.text


def test_each_chunk_begins_with_the_tag() -> None:
    translator = tagged(slots_translator(positions="learned"), "news")
    line = translator.encode_line("a " * 30)
    assert [chunk[0] for chunk in line.pieces] == [NEWS] * 3
    assert max(map(len, line.pieces)) == MAX_POSITIONS
    told: list[str] = []
    watcher = Watcher(on_long_line=lambda long: told.append(str(long)))
    translator.translate(["a " * 30], watcher=watcher)
    assert told == ["line 1: 33 tokens, translated in 3 pieces"]


def test_tags_are_each_lines_own_or_the_translators() -> None:
    translator = slots_translator()
    tags = [None, "news", "web"]
    lines = [TaggedLine("a b {x} c", tag) for tag in tags]
    together = [best for best, *_ in translator.translate_lines(lines)]
    for tag, best in zip(tags, together, strict=True):
        own = translator if tag is None else tagged(translator, tag)
        (alone,), *_ = own.translate_lines(["a b {x} c"])
        assert alone.log_probability == pytest.approx(best.log_probability, rel=1e-5)
    assert len({round(best.log_probability, 2) for best in together}) == 3
    assert tagged(translator, "web").settings_fingerprint["tag"] == "web"
    assert "tag" not in translator.settings_fingerprint
    with pytest.raises(UsageError, match=r"^no tag 'wbe'; did you mean 'web'\?"):
        tagged(translator, "wbe")
    with pytest.raises(UsageError, match="the run has no tags"):
        tagged(random_translator(), "web")


@pytest.mark.parametrize("beam_size", [1, 3])
def test_tags_are_never_written(beam_size: int) -> None:
    translator = slots_translator([NEWS, NEWS + 1]).with_search(beam_size=beam_size)
    for tag in (None, "news"):
        line = translator.encode_line(TaggedLine("a b {x} c", tag))
        for best, *_ in translator.search_pieces([(line, 0)]):
            assert best.ids
            assert not {NEWS, NEWS + 1} & {*best.ids}


def remarks(translator: TorchTranslator, lines: list[str]) -> list[list[str]]:
    """Return what the notes say about each line and its best translation."""
    notes = translator.new_notes()
    found = translate_stream(translator, lines, n_best=1)
    pairs = zip(lines, found, strict=True)
    return [[*chain(*(each.look(1, line, one) for each in notes))] for line, one in pairs]


def test_notes_tell_where_placeholders_differ() -> None:
    translator = slots_translator([SLOT[0]]).with_search(max_length=1)
    lines = ["{x} a", "{x} %s a", "a", ""]
    assert remarks(translator, lines) == [[], ["placeholders differ: without '%s'"], [], []]
    unprotected = replace(
        random_translator(size=_WORDS.size), tokenizers=Tokenizers(_WORDS, _WORDS)
    )
    assert remarks(unprotected, ["a %s", "b"]) == [[], []]


def test_attention_shows_placeholders_and_tags() -> None:
    translator = tagged(slots_translator([SLOT[0]]), "news")
    maps = compute_attention_maps(translator, "{x}: a")
    assert maps.src_tokens == ["⟨tag news⟩", "{x}", "⟨joiner⟩", "<unk>", "a", "<EOS>"]
    assert maps.tgt_tokens == ["{x}"] * 5 + ["<EOS>"]
    assert translator.translate(["{x}: a"]) == ["{x} {x} {x} {x} {x}"]


def test_a_translation_without_its_placeholders_is_searched_again() -> None:
    engine = ByBeam(
        [SLOT[0], 4], [[4], [SLOT[0], SLOT[0]], [5, SLOT[1], SLOT[0]], [SLOT[0], SLOT[1]]]
    )
    translator: Any = replace(slots_translator(), engine=cast(Any, engine))
    # The first line's greedy translation has what it needs.
    lines = ["%s a", "%s a {x}", "a"]
    first, second, third = translator.translate(lines)
    assert engine.asked == [(3, 1), (2, SECOND_BEAM)]
    assert (first, second) == ("%s a", "b {x} %s")
    assert third == "a"
    engine.asked.clear()
    translator.translate_lines(lines, n_best=2)
    assert engine.asked == [(3, 1)]


class BySource(ByBeam):
    """Writes a slot where the source has one, and else 'a'."""

    def search(self, sources: Sequence[list[int]], *others: Any) -> list[list[Hypothesis]]:
        self.asked.append((len(sources), others[1].beam_size))
        slots = [[number for number in ids if number in SLOT] for ids in sources]
        return [[Hypothesis(ids or [4], -1.0)] for ids in slots]


def test_what_is_in_placeholders_or_tags_is_no_term() -> None:
    translator = keeping_to(slots_translator(), TermList([make_term("x", ["j"])]))
    find_lost = cast(ReservedTokenizers, translator.tokenizers).find_lost
    assert [find_lost(line, "")[0] for line in ("{x} x", "{x} a {x}", "")] == [1, 0, 0]
    assert find_lost("`x` a x", "j", [(0, 3)]) == (1, [])


def test_without_a_better_one_the_first_translation_stays() -> None:
    engine = ByBeam([4], [[5], [6]])
    translator: Any = replace(slots_translator(), engine=cast(Any, engine))
    assert translator.translate(["%s a"]) == ["a"]


class Scoring(ByBeam):
    """Finds all translations equally likely."""

    name = "scoring"

    def score(self, sources: Sequence[list[int]], *others: Any) -> list[float]:
        return [0.0 for _ in sources]


def test_instead_of_a_doubtful_translation_none_that_has_lost_more_terms_is_taken() -> None:
    engine: Any = Scoring([4] * 5, [[6], [5]])
    listed = TermList([make_term("e", ["b"]), make_term("d", ["a"])])
    translator = replace(keeping_to(slots_translator(), listed), engine=engine)
    translator = replace(translator, revisers=(Doubts(DoubtFinder("en")),))
    assert translator.translate(["c d", "c d e"]) == ["a a a a a", "a b"]
