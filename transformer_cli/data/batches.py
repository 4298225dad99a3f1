"""Batching: bucket sentences by length within a token budget, and pad them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.data.token_arrays import EncodedText, Lengths
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Padded rows of token ids.

    The source ends in EOS. The target is shifted: the decoder's input starts with BOS, its labels
    end in EOS.
    """

    src: Int[Tensor, "batch src"]
    tgt_in: Int[Tensor, "batch tgt"]
    tgt_out: Int[Tensor, "batch tgt"]
    tgt_tokens: int
    """Target tokens to predict, without padding."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on ``device``, copied asynchronously."""
        if device.type == "cpu":
            return self
        src, tgt_in, tgt_out = (
            rows.pin_memory().to(device, non_blocking=True)
            for rows in (self.src, self.tgt_in, self.tgt_out)
        )
        return Batch(src, tgt_in, tgt_out, self.tgt_tokens)


def plan_epoch(
    text: EncodedText, batch_tokens: int, seed: int, epoch: int, shard: int = 0
) -> list[np.ndarray]:
    """Return the batches of one epoch as arrays of sentence indices.

    The plan is a pure function of its arguments. Sentences of similar length on both sides share a
    batch; ties and the order of batches are shuffled anew each epoch.

    Args:
        text: what to train on.
        batch_tokens: token budget: the most tokens of a side of a batch, EOS and padding included.
            A longer sentence is a batch of its own.
        seed: the experiment's seed.
        epoch: counted from 0.
        shard: which shard of the corpus the text is, counted from 0.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, shard]))
    # Shuffles pairs of equal lengths.
    ties = random.random(len(text))
    keys = _sort_keys(text.lengths)
    order = np.lexsort((ties, keys.zigzag, keys.tgt))
    batches = list(cut_by_tokens(order, np.maximum(keys.src, keys.tgt), batch_tokens))
    return [batches[index] for index in random.permutation(len(batches))]


def count_batches(lengths: Lengths, batch_tokens: int) -> int:
    """Return how many batches ``plan_epoch`` makes, which is the same in every epoch.

    Args:
        lengths: tokens of each pair, without BOS and EOS.
        batch_tokens: as in ``plan_epoch``.
    """
    # Same order but for ties, which do not change the count: sorting one combined key is faster.
    src, tgt, zigzag = _sort_keys(lengths)
    offset = int(src.max(initial=0))
    radix = 2 * offset + 1
    tgt, zigzag = np.divmod(np.sort(tgt * radix + zigzag + offset), radix)
    longest = np.maximum(np.abs(zigzag - offset), tgt)
    return len(_batch_ends(longest, batch_tokens))


class _SortKeys(NamedTuple):
    """Lengths with EOS, and the key that orders pairs of one target length."""

    src: np.ndarray
    tgt: np.ndarray
    zigzag: np.ndarray


def _sort_keys(lengths: Lengths) -> _SortKeys:
    src, tgt = lengths.src + 1, lengths.tgt + 1
    # Zigzag: source lengths rise where the target's is even and fall where it is odd, so that
    # neighbours are similar across a change of target length too.
    return _SortKeys(src, tgt, np.where(tgt % 2 == 0, src, -src))


def cut_by_tokens(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Yield slices of ``order`` that take at most ``batch_tokens`` when padded to their longest."""
    start = 0
    for end in _batch_ends(lengths[order], batch_tokens):
        yield order[start:end]
        start = end


def _batch_ends(lengths: np.ndarray, batch_tokens: int) -> list[int]:
    """Return the index after each batch's last sentence, for sentences in this order."""
    if not len(lengths):
        return []
    # Work on runs of equal lengths: a shard has ten times fewer of them than sentences.
    firsts = np.flatnonzero(np.diff(lengths, prepend=lengths[0] - 1))
    run_ends = np.append(firsts[1:], len(lengths)).tolist()
    ends = []
    start = longest = 0
    for first, end, length in zip(firsts.tolist(), run_ends, lengths[firsts].tolist(), strict=True):
        longest = max(longest, length)
        if first > start and longest * (first - start + 1) > batch_tokens:
            ends.append(first)
            start, longest = first, length
        while end - start > (most := max(1, batch_tokens // max(1, longest))):
            start, longest = start + most, length
            ends.append(start)
    return [*ends, len(lengths)]


def collate(text: EncodedText, indices: np.ndarray) -> Batch:
    """Return the sentences at ``indices`` as a padded batch."""
    return Batch(
        src=pad_rows([[*text.src[index], EOS_ID] for index in indices]),
        tgt_in=pad_rows([[BOS_ID, *text.tgt[index]] for index in indices]),
        tgt_out=pad_rows([[*text.tgt[index], EOS_ID] for index in indices]),
        tgt_tokens=int(text.tgt.lengths[indices].sum()) + len(indices),
    )


def make_dummy_batch() -> Batch:
    """Return a batch with nothing to predict: its loss and gradients are zero."""
    return Batch(
        src=torch.tensor([[EOS_ID]]),
        tgt_in=torch.tensor([[BOS_ID]]),
        tgt_out=torch.tensor([[PAD_ID]]),
        tgt_tokens=0,
    )


def pad_rows(rows: list[list[int]]) -> Int[Tensor, "batch longest"]:
    """Return rows of ids as a tensor, padded on the right."""
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
