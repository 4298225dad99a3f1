"""From token ids to padded batches: which sentences go together, and in what order."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.data.encoded import EncodedText
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Padded rows of token ids.

    The source ends in EOS; the target is shifted: what goes in starts with BOS, what is to come out
    ends in EOS.
    """

    src: Int[Tensor, "batch src"]
    tgt_in: Int[Tensor, "batch tgt"]
    tgt_out: Int[Tensor, "batch tgt"]
    tgt_tokens: int
    """Target tokens to predict, padding aside."""

    def to(self, device: torch.device) -> "Batch":
        """The same batch on ``device``, copied while the caller goes on."""
        if device.type == "cpu":
            return self
        src, tgt_in, tgt_out = (
            rows.pin_memory().to(device, non_blocking=True)
            for rows in (self.src, self.tgt_in, self.tgt_out)
        )
        return Batch(src, tgt_in, tgt_out, self.tgt_tokens)


def plan_epoch(
    text: EncodedText, batch_tokens: int, seed: int, epoch: int, window: int = 0
) -> list[np.ndarray]:
    """The batches of one epoch as arrays of sentence numbers: a function of its arguments alone.

    Sentences of like length on both sides go together; which ones of them do, and the order of the
    batches, changes from epoch to epoch.

    Args:
        text: what to train on.
        batch_tokens: most tokens of a side of a batch, end mark and padding included; a sentence
            longer than that makes a batch of its own.
        seed: the experiment's seed.
        epoch: counted from 0.
        window: which part of a corpus the text is, counted from 0.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch, window]))
    # Pairs of equal lengths are mixed.
    ties = random.random(len(text))
    batches = list(_cut_sorted(text.src.lengths, text.tgt.lengths, ties, batch_tokens))
    return [batches[index] for index in random.permutation(len(batches))]


def count_batches(src_lengths: np.ndarray, tgt_lengths: np.ndarray, batch_tokens: int) -> int:
    """How many batches ``plan_epoch`` makes of sentences of these lengths, in every epoch alike.

    Args:
        src_lengths: tokens of each pair's source, without marks.
        tgt_lengths: tokens of its target.
        batch_tokens: as ``plan_epoch`` is given.
    """
    # As they are sorted there, but for ties, which are alike to the count: faster in one number.
    src_lengths, tgt_lengths, winding = _wound(src_lengths, tgt_lengths)
    turn = int(src_lengths.max(initial=0)) + 1
    tgt_lengths, winding = np.divmod(np.sort(tgt_lengths * (2 * turn) + winding + turn), 2 * turn)
    longest = np.maximum(np.abs(winding - turn), tgt_lengths)
    return len(_cuts(longest, batch_tokens))


def _cut_sorted(
    src_lengths: np.ndarray, tgt_lengths: np.ndarray, ties: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Batches by rising length; pairs of equal lengths are sorted by ``ties``."""
    src_lengths, tgt_lengths, winding = _wound(src_lengths, tgt_lengths)
    order = np.lexsort((ties, winding, tgt_lengths))
    return cut_by_tokens(order, np.maximum(src_lengths, tgt_lengths), batch_tokens)


def _wound(
    src_lengths: np.ndarray, tgt_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths with their end marks, and what to sort pairs of equal target lengths by."""
    src_lengths, tgt_lengths = src_lengths + 1, tgt_lengths + 1
    # Source lengths rise where the target's is even and fall where it is odd, so that neighbours
    # are alike at the seams too.
    return src_lengths, tgt_lengths, np.where(tgt_lengths % 2 == 0, src_lengths, -src_lengths)


def cut_by_tokens(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Cut ``order`` into runs that fill at most ``batch_tokens`` when padded to their longest."""
    start = 0
    for end in _cuts(lengths[order], batch_tokens):
        yield order[start:end]
        start = end


def _cuts(lengths: np.ndarray, batch_tokens: int) -> list[int]:
    """Where each batch of sentences of these lengths, taken in this order, ends."""
    if not len(lengths):
        return []
    # Neighbours of one length are looked at together: a window has ten times fewer such runs.
    firsts = np.flatnonzero(np.diff(lengths, prepend=lengths[0] - 1))
    ends = np.append(firsts[1:], len(lengths)).tolist()
    cuts = []
    start = longest = 0
    for first, end, length in zip(firsts.tolist(), ends, lengths[firsts].tolist(), strict=True):
        longest = max(longest, length)
        if first > start and longest * (first - start + 1) > batch_tokens:
            cuts.append(first)
            start, longest = first, length
        while end - start > (most := max(1, batch_tokens // max(1, longest))):
            start, longest = start + most, length
            cuts.append(start)
    return [*cuts, len(lengths)]


def collate(text: EncodedText, indices: np.ndarray) -> Batch:
    """The batch of the sentences ``indices``."""
    return Batch(
        src=pad_rows([[*text.src[index], EOS_ID] for index in indices]),
        tgt_in=pad_rows([[BOS_ID, *text.tgt[index]] for index in indices]),
        tgt_out=pad_rows([[*text.tgt[index], EOS_ID] for index in indices]),
        tgt_tokens=int(text.tgt.lengths[indices].sum()) + len(indices),
    )


def no_pairs() -> Batch:
    """A batch of one empty pair with nothing to predict: its loss and its gradients are zero."""
    return Batch(
        src=torch.tensor([[EOS_ID]]),
        tgt_in=torch.tensor([[BOS_ID]]),
        tgt_out=torch.tensor([[PAD_ID]]),
        tgt_tokens=0,
    )


def pad_rows(rows: list[list[int]]) -> Int[Tensor, "batch longest"]:
    """Rows of ids, filled up with padding at their ends."""
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
