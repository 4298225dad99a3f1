"""Forced prefixes: outputs begin with them for every beam and batch."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from inference.test_lines import letters_translator
from inference.test_search import (
    BANNED,
    EOS,
    GREEDY,
    LIMITS,
    SRC,
    UNK,
    assert_equal,
    best_of,
    log_probability,
    random_model,
    with_end_mark,
    without_padding,
)
from inference.translators import LINES, numbers, random_translator

from transformer_cli.base.errors import InputError
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.evaluation.scoring import TorchTranslator
from transformer_cli.extensions.prefixes.forced_prefixes import (
    ForcedPrefixes,
    PrefixedLine,
    PrefixedText,
    with_prefixes,
)
from transformer_cli.inference.engine import Hypothesis, SearchOptions
from transformer_cli.inference.search import search
from transformer_cli.inference.translation import Translation
from transformer_cli.inference.translator import rank
from transformer_cli.model.transformer import Transformer

# Their lengths go from zero to a row's limit; one has a banned token.
PREFIXES = [[9, 4], [], [7], [UNK, 5, 5], [8, 10, 4, 6], [11, 11], [], [6]]


def forced_search(
    model: Transformer,
    src: torch.Tensor,
    limits: torch.Tensor,
    options: SearchOptions,
    prefixes: Sequence[list[int]],
) -> list[list[Hypothesis]]:
    constraint = ForcedPrefixes(prefixes, BANNED)
    options = replace(options, banned_ids=(), constraints=(constraint,))
    return search(model, src, limits, options, range(len(src)))


def forced(
    translator: TorchTranslator, lines: Sequence[str], prefixes: Sequence[str]
) -> list[list[Translation]]:
    texts = list(map(PrefixedText, lines, prefixes, range(1, len(lines) + 1)))
    return with_prefixes(translator).translate_lines(texts)


# --- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_no_prefixes_are_empty_prefixes(beam_size: int) -> None:
    model = random_model()
    options = replace(GREEDY, decoding=DecodingConfig(beam_size=beam_size))
    expected = search(model, SRC, LIMITS, options)
    assert forced_search(model, SRC, LIMITS, options, [[] for _ in SRC]) == expected


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_outputs_begin_with_their_prefixes_and_are_as_likely_as_they_say(beam_size: int) -> None:
    model = random_model()
    options = replace(GREEDY, decoding=DecodingConfig(beam_size=beam_size))
    limits = LIMITS.clamp(min=4)
    found = forced_search(model, SRC, limits, options, PREFIXES)
    for row, limit, prefix, hypotheses in zip(SRC, limits.tolist(), PREFIXES, found, strict=True):
        for each in hypotheses:
            assert each.ids[: len(prefix)] == prefix
            assert not {*BANNED, EOS} & {*each.ids[len(prefix) :]}
            expected = log_probability(model, row, with_end_mark(each, limit))
            assert each.log_probability == pytest.approx(expected, abs=1e-4)


@pytest.mark.long_cases
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_prefixes_in_a_batch_equal_one_by_one(beam_size: int) -> None:
    model = random_model()
    options = replace(GREEDY, decoding=DecodingConfig(beam_size=beam_size))
    limits = LIMITS.clamp(min=4)
    together = forced_search(model, SRC, limits, options, PREFIXES)
    for row, limit, prefix, hypotheses in zip(SRC, limits, PREFIXES, together, strict=True):
        (alone,) = forced_search(model, without_padding(row), limit[None], options, [prefix])
        assert_equal(hypotheses, alone)


@pytest.mark.long_cases
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_start_of_the_best_output_gives_that_output(count: int) -> None:
    # This beam is wide enough to hold the best output from either start.
    model = random_model()
    for beam_size in (1, 200):
        options = replace(GREEDY, decoding=DecodingConfig(beam_size=beam_size))
        best = best_of(model, SRC, LIMITS, options)
        again = forced_search(model, SRC, LIMITS, options, [each.ids[:count] for each in best])
        assert_equal([rank(hypotheses, 0.0)[0] for hypotheses in again], best)


# --- lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_begin_with_their_prefixes_whatever_the_batch(beam_size: int) -> None:
    translator = random_translator().with_search(beam_size=beam_size, max_length=6)
    prefixes = ["9 4", "", " 7 ", "5 5 5", "", "12", "8"]
    together = forced(translator, LINES, prefixes)
    for line, prefix, (best, *_) in zip(LINES, prefixes, together, strict=True):
        assert best.text.split()[: len(prefix.split())] == prefix.split()
        assert forced(translator, [line], [prefix])[0][0].text == best.text
    assert forced(translator, LINES, [""] * 7) == translator.translate_lines(LINES)
    assert with_prefixes(translator).translate_lines(LINES) == translator.translate_lines(LINES)


def test_the_first_words_of_a_translation_lead_to_it() -> None:
    translator = random_translator().with_search(max_length=6)
    whole = translator.translate(LINES)
    starts = [" ".join(text.split()[:2]) for text in whole]
    assert [best.text for best, *_ in forced(translator, LINES, starts)] == whole


def test_a_prefix_may_be_longer_than_outputs_are() -> None:
    translator = random_translator().with_search(max_length=2)
    (best,), *_ = forced(translator, ["5"], ["9 9 9 9"])
    assert best.text == "9 9 9 9"


def test_a_prefix_starts_a_long_line_once_and_leaves_a_blank_one_blank() -> None:
    translator = random_translator(positions="learned")
    (long,), (blank,) = forced(translator, [numbers(30), " "], ["9 9", "9 9"])
    assert long.text.startswith("9 9 ")
    assert blank.text == ""


def test_a_prefix_that_is_too_long_is_named_by_its_line() -> None:
    translator = random_translator(positions="learned")
    with pytest.raises(InputError, match=r"^prefix of line 3: 12 tokens"):
        forced(translator, ["5"] * 3, ["", "9 9", numbers(12)])


def test_a_line_without_words_gets_its_prefix_too() -> None:
    translator = letters_translator()
    (best,), (blank,) = forced(translator, ["24/7", "\u200b"], ["9", "9"])
    assert best.text.startswith("9")
    assert blank.text == "\u200b"


# --- with other extensions ------------------------------------------------------------------------


def test_alignments_are_of_all_words() -> None:
    aligning = pytest.importorskip("transformer_cli.extensions.alignments.aligning")
    translator = random_translator().with_search(max_length=6)
    text = PrefixedText("5 6 7", "9 4", 1)
    before, after = (
        made.translate_lines([text])
        for made in (
            with_prefixes(aligning.with_alignments(translator)),
            aligning.with_alignments(with_prefixes(translator)),
        )
    )
    assert before == after
    ((best,),) = after
    assert best.text.startswith("9 4")
    assert {tgt for _, tgt in best.alignment} == set(range(len(best.text.split())))


def test_a_prefix_has_its_placeholders_as_slots() -> None:
    slots = pytest.importorskip("extensions.constraints.test_slots")
    translator = slots.slots_translator([slots.SLOT[0]])
    (best,), *_ = forced(translator, ["a {x}"], ["b %s: {x}"])
    assert best.text.startswith("b %s: {x}")
    line = with_prefixes(translator).encode_line(PrefixedText("a {x}", "{x}: b", 1))
    assert isinstance(line, PrefixedLine)
    assert line.prefix_ids[:2] == [slots.SLOT[0], slots.JOINER]


def test_unknown_words_of_a_prefix_stay_as_they_were_given() -> None:
    unknown = pytest.importorskip("extensions.alignments.test_unknown_words")
    translator = unknown.with_unk_replacement(unknown.unsure_translator())
    (best,) = forced(translator, ["a Xaver"], ["Qu  b"])[0]
    assert best.text.startswith("Qu  b ")
    assert "<unk>" not in best.text
    (kept,) = forced(unknown.unsure_translator(), ["a Xaver"], ["Qu  b"])[0]
    assert kept.text.startswith("Qu  b ")
