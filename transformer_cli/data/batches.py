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
    ties = np.zeros(len(src_lengths))
    return sum(1 for _ in _cut_sorted(src_lengths, tgt_lengths, ties, batch_tokens))


def _cut_sorted(
    src_lengths: np.ndarray, tgt_lengths: np.ndarray, ties: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Batches by rising length; pairs of equal lengths are sorted by ``ties``."""
    src_lengths, tgt_lengths = src_lengths + 1, tgt_lengths + 1
    # Source lengths rise where the target's is even and fall where it is odd, so that neighbours
    # are alike at the seams too.
    winding = np.where(tgt_lengths % 2 == 0, src_lengths, -src_lengths)
    order = np.lexsort((ties, winding, tgt_lengths))
    return cut_by_tokens(order, np.maximum(src_lengths, tgt_lengths), batch_tokens)


def cut_by_tokens(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Cut ``order`` into runs that fill at most ``batch_tokens`` when padded to their longest."""
    start, longest = 0, 0
    for end, length in enumerate(lengths[order].tolist()):
        longest = max(longest, length)
        if end > start and longest * (end - start + 1) > batch_tokens:
            yield order[start:end]
            start, longest = end, length
    if start < len(order):
        yield order[start:]


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
