"""Batches of sentences that fit into a number of tokens; light to import."""

from collections.abc import Iterator

import numpy as np


def cut_by_tokens(
    order: np.ndarray, lengths: np.ndarray, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Yield slices of ``order`` that take at most ``batch_tokens`` when padded to their longest."""
    start = 0
    for end in batch_ends(lengths[order], batch_tokens):
        yield order[start:end]
        start = end


def batch_ends(lengths: np.ndarray, batch_tokens: int) -> list[int]:
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
