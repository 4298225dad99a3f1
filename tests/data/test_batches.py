"""Every pair once an epoch, in batches that fit the budget, mixed again each epoch."""

from itertools import chain, pairwise
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from transformer_cli.data.batches import Batch, collate
from transformer_cli.data.shards import count_batches, cut_by_tokens, plan_epoch
from transformer_cli.data.store import EncodedText, SrcTgt, TokenArray
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID

Lengths = list[tuple[int, int]]
LENGTHS: st.SearchStrategy[Lengths] = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40
)
BUDGETS = st.integers(1, 60)


def text_of(lengths: Lengths) -> EncodedText:
    """Sentences of these lengths, source and target."""
    return EncodedText(
        TokenArray.from_sentences([4] * src for src, _ in lengths),
        TokenArray.from_sentences([4] * tgt for _, tgt in lengths),
    )


def captions(count: int) -> EncodedText:
    """Lengths like those of image captions: about 13 words, the source's near the target's."""
    random = np.random.default_rng(0)
    tgt = np.clip(np.round(random.gamma(9.0, 13.0 / 9.0, count)), 2, 40).astype(int)
    src = np.clip(np.round(tgt * random.normal(0.95, 0.17, count)), 1, 40).astype(int)
    return text_of(list(zip(src.tolist(), tgt.tolist(), strict=True)))


def as_lists(plan: list[np.ndarray]) -> list[list[int]]:
    return [indices.tolist() for indices in plan]


def groupings(plan: list[np.ndarray]) -> set[frozenset[int]]:
    return {frozenset(indices) for indices in as_lists(plan)}


def padded_tokens(side: TokenArray, indices: np.ndarray) -> int:
    """Cells of a side of a batch, end marks and padding included."""
    return len(indices) * (int(side.lengths[indices].max()) + 1)


@settings(deadline=None)
@given(LENGTHS, BUDGETS, st.integers(0, 2**31 - 1), st.integers(0, 3))
def test_every_pair_comes_once_an_epoch(
    lengths: Lengths, batch_tokens: int, seed: int, epoch: int
) -> None:
    plan = plan_epoch(text_of(lengths).lengths, batch_tokens, seed, epoch)
    assert sorted(chain(*as_lists(plan))) == list(range(len(lengths)))
    assert all(len(indices) for indices in plan)


@settings(deadline=None)
@given(LENGTHS, BUDGETS, st.integers(0, 3))
def test_only_a_single_long_sentence_exceeds_the_budget(
    lengths: Lengths, batch_tokens: int, epoch: int
) -> None:
    text = text_of(lengths)
    for indices in plan_epoch(text.lengths, batch_tokens, seed=1, epoch=epoch):
        for side in (text.src, text.tgt):
            assert len(indices) == 1 or padded_tokens(side, indices) <= batch_tokens


@settings(deadline=None)
@given(LENGTHS, BUDGETS, st.integers(0, 100))
def test_a_plan_depends_on_its_arguments_alone(
    lengths: Lengths, batch_tokens: int, seed: int
) -> None:
    first = plan_epoch(text_of(lengths).lengths, batch_tokens, seed, epoch=2)
    torch.rand(3)
    np.random.seed(seed + 1)
    assert as_lists(first) == as_lists(
        plan_epoch(text_of(lengths).lengths, batch_tokens, seed, epoch=2)
    )


@settings(deadline=None)
@given(LENGTHS, BUDGETS)
def test_every_epoch_has_the_same_number_of_batches(lengths: Lengths, batch_tokens: int) -> None:
    text = text_of(lengths)
    counts = {
        len(plan_epoch(text.lengths, batch_tokens, seed, epoch))
        for seed in (0, 7)
        for epoch in range(4)
    }
    assert len(counts) == 1


@settings(deadline=None)
@given(LENGTHS, BUDGETS, st.integers(0, 9))
def test_batches_are_counted_as_they_are_cut(
    lengths: Lengths, batch_tokens: int, epoch: int
) -> None:
    text = text_of(lengths)
    count = count_batches(text.lengths, batch_tokens)
    assert count == len(plan_epoch(text.lengths, batch_tokens, seed=1, epoch=epoch))


def test_no_pairs_make_no_batches() -> None:
    none = np.zeros(0, np.int64)
    assert count_batches(SrcTgt(none, none), 10) == 0
    assert list(cut_by_tokens(none, none, 10)) == []


@settings(deadline=None)
@given(st.lists(st.integers(1, 12), max_size=40), BUDGETS, st.randoms())
def test_runs_are_cut_where_counting_one_by_one_cuts_them(
    lengths: list[int], batch_tokens: int, random: Random
) -> None:
    order = random.sample(range(len(lengths)), len(lengths))
    expected: list[list[int]] = []
    for index in order:
        longer = [*expected[-1], index] if expected else []
        if longer and max(lengths[each] for each in longer) * len(longer) <= batch_tokens:
            expected[-1] = longer
        else:
            expected.append([index])
    found = cut_by_tokens(np.array(order, int), np.array(lengths, int), batch_tokens)
    assert as_lists(list(found)) == expected


def test_the_budget_is_filled_to_the_last_token() -> None:
    # Six sentences of 4 tokens with their end marks: 12 tokens hold three, 11 hold two.
    text = text_of([(3, 3)] * 6)
    assert [len(each) for each in plan_epoch(text.lengths, 12, seed=1, epoch=0)] == [3, 3]
    assert [len(each) for each in plan_epoch(text.lengths, 11, seed=1, epoch=0)] == [2, 2, 2]


def test_the_longer_side_counts() -> None:
    # With end marks 2 and 4 tokens, or 4 and 2: two of either kind fill a budget of 8.
    for lengths in ((1, 3), (3, 1)):
        plan = plan_epoch(text_of([lengths] * 4).lengths, 8, seed=1, epoch=0)
        assert [len(each) for each in plan] == [2, 2]


def test_a_sentence_longer_than_the_budget_is_alone() -> None:
    text = text_of([(1, 1), (30, 2), (1, 1), (2, 30), (1, 1)])
    plan = plan_epoch(text.lengths, 10, seed=1, epoch=0)
    assert groupings(plan) == {frozenset({0, 2, 4}), frozenset({1}), frozenset({3})}


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0), (0, 1)])
def test_other_epochs_and_seeds_mix_anew(seed: int, epoch: int) -> None:
    text = captions(400)
    first = plan_epoch(text.lengths, 200, seed=1, epoch=0)
    other = plan_epoch(text.lengths, 200, seed, epoch)
    assert len(other) == len(first)
    # The order of batches: by the length of their first target.
    assert [text.tgt.lengths[each[0]] for each in first] != [
        text.tgt.lengths[each[0]] for each in other
    ]
    # And who sits together: of batches with more than one pair, few are the same.
    assert len(groupings(first) & groupings(other)) < 0.5 * len(first)


def test_batches_do_not_come_by_length() -> None:
    text = captions(400)
    longest = [
        int(text.tgt.lengths[each].max()) for each in plan_epoch(text.lengths, 200, seed=1, epoch=0)
    ]
    rising = sum(before <= after for before, after in pairwise(longest))
    assert 0.3 * len(longest) < rising < 0.8 * len(longest)


def test_little_of_a_batch_is_padding() -> None:
    text = captions(10_000)
    plan = plan_epoch(text.lengths, 2048, seed=1, epoch=0)

    def padding(side: TokenArray) -> float:
        cells = sum(padded_tokens(side, indices) for indices in plan)
        return 1.0 - (len(side.ids) + len(side)) / cells

    # In random order it would be three cells in five.
    assert padding(text.tgt) < 0.02
    assert padding(text.src) < 0.12
    # And few batches are less than full.
    assert len(plan) < 1.3 * (len(text.tgt.ids) + len(text)) / 2048


def test_collate_by_hand() -> None:
    text = EncodedText(
        TokenArray.from_sentences([[10, 11, 12], [99], [13]]),
        TokenArray.from_sentences([[20], [98], [21, 22]]),
    )
    batch = collate(text.take(np.array([2, 0])))
    assert batch.src.tolist() == [[13, EOS_ID, PAD_ID, PAD_ID], [10, 11, 12, EOS_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, 21, 22], [BOS_ID, 20, PAD_ID]]
    assert batch.tgt_out.tolist() == [[21, 22, EOS_ID], [20, EOS_ID, PAD_ID]]
    assert batch.tgt_tokens == 5
    assert {rows.dtype for rows in (batch.src, batch.tgt_in, batch.tgt_out)} == {torch.int64}


def test_empty_sentences_are_marks_alone() -> None:
    batch = collate(text_of([(0, 0), (0, 1)]))
    assert batch.src.tolist() == [[EOS_ID], [EOS_ID]]
    assert batch.tgt_in.tolist() == [[BOS_ID, PAD_ID], [BOS_ID, 4]]
    assert batch.tgt_out.tolist() == [[EOS_ID, PAD_ID], [4, EOS_ID]]
    assert batch.tgt_tokens == 3


@settings(deadline=None)
@given(LENGTHS)
def test_a_batch_holds_its_sentences_shifted_once(lengths: Lengths) -> None:
    text = text_of(lengths)
    batch = collate(text)
    assert torch.equal(batch.tgt_in == PAD_ID, batch.tgt_out == PAD_ID)
    assert batch.tgt_tokens == int((batch.tgt_out != PAD_ID).sum())
    for (src_length, tgt_length), src, tgt_in, tgt_out in zip(
        lengths, batch.src, batch.tgt_in, batch.tgt_out, strict=True
    ):
        assert src[: src_length + 1].tolist() == [4] * src_length + [EOS_ID]
        assert (src[src_length + 1 :] == PAD_ID).all()
        assert tgt_in[0] == BOS_ID
        assert torch.equal(tgt_in[1 : tgt_length + 1], tgt_out[:tgt_length])
        assert tgt_out[tgt_length] == EOS_ID
        assert (tgt_out[tgt_length + 1 :] == PAD_ID).all()


def test_on_a_cpu_a_batch_stays_where_it_is() -> None:
    batch = collate(text_of([(1, 1)]))
    assert batch.to(torch.device("cpu")).ids is batch.ids


@pytest.mark.gpu
def test_a_batch_goes_to_the_gpu_unchanged() -> None:
    batch = collate(captions(50))
    moved = batch.to(torch.device("cuda"))
    assert isinstance(moved, Batch)
    assert moved.tgt_tokens == batch.tgt_tokens
    for rows in ("src", "tgt_in", "tgt_out"):
        assert getattr(moved, rows).is_cuda
        assert torch.equal(getattr(moved, rows).cpu(), getattr(batch, rows))
