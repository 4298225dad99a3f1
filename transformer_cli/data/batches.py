"""Batching: bucket sentences by length within a token budget, and pad them."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.data.token_arrays import EncodedText, Lengths
from transformer_cli.data.token_budget import batch_ends, cut_by_tokens
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID

Ids = TypeVar("Ids", np.ndarray, Tensor)


@dataclass(frozen=True)
class Batch:
    """Padded rows of token ids.

    The source ends in EOS. The target is shifted: the decoder's input starts with BOS, its labels
    end in EOS.
    """

    ids: Int[Tensor, " id"]
    """The rows of ``src``, ``tgt_in`` and ``tgt_out`` in one buffer, copied to a device at once."""
    shape: tuple[int, int, int]
    """Number of rows, and their padded source and target length."""
    tgt_tokens: int
    """Target tokens to predict, without padding."""

    @property
    def src(self) -> Int[Tensor, "batch src"]:
        """Source rows."""
        return _split_sides(self.ids, self.shape)[0]

    @property
    def tgt_in(self) -> Int[Tensor, "batch tgt"]:
        """Rows of the decoder's input."""
        return _split_sides(self.ids, self.shape)[1]

    @property
    def tgt_out(self) -> Int[Tensor, "batch tgt"]:
        """Rows of labels."""
        return _split_sides(self.ids, self.shape)[2]

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on ``device``, copied asynchronously from pinned memory."""
        # MPS would read the memory after it is used for something else.
        return replace(self, ids=self.ids.to(device, non_blocking=device.type != "mps"))

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory."""
        return replace(self, ids=self.ids.pin_memory())

    def select(self, rows: slice) -> "Batch":
        """Return some of the rows, with the same padding."""
        src, tgt_in, tgt_out = (side[rows] for side in (self.src, self.tgt_in, self.tgt_out))
        ids = torch.cat([side.flatten() for side in (src, tgt_in, tgt_out)])
        tgt_tokens = int((tgt_out != PAD_ID).sum())
        return Batch(ids, (len(src), src.size(1), tgt_out.size(1)), tgt_tokens)

    def round_up(self) -> "Batch":
        """Return the batch padded to multiples of 8 rows and 4 tokens, so that shapes recur.

        Loss and gradients stay the same. Rows are filled up with pairs that have nothing to
        predict; their source holds EOS, since attention needs a token.
        """
        rows, src_length, tgt_length = self.shape
        shape = (-(-rows // 8) * 8, -(-src_length // 4) * 4, -(-tgt_length // 4) * 4)
        ids = torch.full((_count_ids(shape),), PAD_ID, device=self.ids.device)
        src, tgt_in, tgt_out = _split_sides(ids, shape)
        src[:, 0], tgt_in[:, 0] = EOS_ID, BOS_ID
        src[:rows, :src_length] = self.src
        tgt_in[:rows, :tgt_length] = self.tgt_in
        tgt_out[:rows, :tgt_length] = self.tgt_out
        return Batch(ids, shape, self.tgt_tokens)


def _count_ids(shape: tuple[int, int, int]) -> int:
    rows, src_length, tgt_length = shape
    return rows * (src_length + 2 * tgt_length)


def _split_sides(ids: Ids, shape: tuple[int, int, int]) -> tuple[Ids, Ids, Ids]:
    """Return the rows of a batch's source, decoder input and labels as views of its buffer."""
    rows, src_length, tgt_length = shape
    src = ids[: rows * src_length].reshape(rows, src_length)
    tgt = ids[rows * src_length :].reshape(2, rows, tgt_length)
    return src, tgt[0], tgt[1]


class HasLengths(Protocol):
    """Pairs, or places for pairs, of known lengths."""

    @property
    def lengths(self) -> Lengths:
        """Tokens of each pair's source and target, without BOS and EOS."""


def plan_epoch(
    text: HasLengths, batch_tokens: int, seed: int, epoch: int, shard: int = 0
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
    ties = random.random(len(text.lengths.src))
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
    return len(batch_ends(longest, batch_tokens))


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


def collate(text: EncodedText, indices: np.ndarray) -> Batch:
    """Return the sentences at ``indices`` as a padded batch."""
    pairs = text.take(indices)
    rows = np.arange(len(indices))
    src_lengths, tgt_lengths = pairs.lengths
    shape = (len(rows), int(src_lengths.max()) + 1, int(tgt_lengths.max()) + 1)
    # 64 bits, as torch's operators index by: fewer would be cast at each use.
    ids = np.full(_count_ids(shape), PAD_ID, dtype=np.int64)
    src, tgt_in, tgt_out = _split_sides(ids, shape)
    src[_columns_below(src_lengths, src)] = pairs.src.ids
    src[rows, src_lengths] = EOS_ID
    is_token = _columns_below(tgt_lengths, tgt_out)
    tgt_in[:, 0] = BOS_ID
    tgt_in[:, 1:][is_token[:, :-1]] = tgt_out[is_token] = pairs.tgt.ids
    tgt_out[rows, tgt_lengths] = EOS_ID
    return Batch(torch.from_numpy(ids), shape, int(tgt_lengths.sum()) + len(rows))


def _columns_below(lengths: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.arange(rows.shape[1]) < lengths[:, None]


def make_dummy_batch() -> Batch:
    """Return a batch with nothing to predict: its loss and gradients are zero."""
    return Batch(torch.tensor([EOS_ID, BOS_ID, PAD_ID]), (1, 1, 1), tgt_tokens=0)


def pad_rows(rows: list[list[int]]) -> Int[Tensor, "batch longest"]:
    """Return rows of ids as a tensor, padded on the right."""
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
