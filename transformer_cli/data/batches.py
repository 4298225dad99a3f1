"""The batches of each epoch: padded sentences of similar length, one shard after another."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.data.shards import ShardedText, count_batches, plan_epoch
from transformer_cli.data.store import EncodedText, SrcTgt
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID

Ids = TypeVar("Ids", np.ndarray, Tensor)
Item = TypeVar("Item")
Augmentation = Callable[[EncodedText, int], EncodedText]
"""A function (pairs of a batch, 32-bit seed) -> these pairs, some changed or joined to others.

All augmentations of a batch get the same seed. So each must seed its generator with the list
``[seed, number]`` and a number that no other uses; otherwise both draw the same random numbers.
"""


@dataclass(frozen=True)
class Batch:
    """A batch of sentence pairs, as padded rows of token ids.

    Source rows end in EOS. The target is shifted: rows of the decoder's input start with BOS, and
    rows of its labels end in EOS.
    """

    ids: Int[Tensor, " id"]
    """The rows of ``src``, ``tgt_in`` and ``tgt_out`` in one buffer, so that one copy is enough."""
    shape: tuple[int, int, int]
    """The number of rows, the padded source length and the padded target length."""
    tgt_tokens: int
    """The number of target tokens to predict; padding does not count."""

    @property
    def src(self) -> Int[Tensor, "batch src"]:
        """The source rows, which end in EOS."""
        return _split_sides(self.ids, self.shape)[0]

    @property
    def tgt_in(self) -> Int[Tensor, "batch tgt"]:
        """The rows of the decoder's input, which start with BOS."""
        return _split_sides(self.ids, self.shape)[1]

    @property
    def tgt_out(self) -> Int[Tensor, "batch tgt"]:
        """The rows of labels, which end in EOS."""
        return _split_sides(self.ids, self.shape)[2]

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on ``device``, copied asynchronously if it is in pinned memory."""
        # MPS might read the memory only after it is used for something else.
        return replace(self, ids=self.ids.to(device, non_blocking=device.type != "mps"))

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory."""
        return replace(self, ids=self.ids.pin_memory())

    def select(self, rows: slice) -> "Batch":
        """Return a batch of some of the rows, padded to the same lengths."""
        sides = [side[rows] for side in _split_sides(self.ids, self.shape)]
        ids = torch.cat([side.flatten() for side in sides])
        return Batch(ids, (len(sides[0]), *self.shape[1:]), int((sides[2] != PAD_ID).sum()))


def _split_sides(ids: Ids, shape: tuple[int, int, int]) -> tuple[Ids, Ids, Ids]:
    """Return the rows of source, decoder input and labels, as views of a batch's buffer ``ids``."""
    rows, src_length, tgt_length = shape
    src = ids[: rows * src_length].reshape(rows, src_length)
    tgt = ids[rows * src_length :].reshape(2, rows, tgt_length)
    return src, tgt[0], tgt[1]


def collate(pairs: EncodedText) -> Batch:
    """Return ``pairs`` as a padded batch."""
    rows = np.arange(len(pairs))
    src_lengths, tgt_lengths = pairs.lengths
    shape = (len(rows), int(src_lengths.max()) + 1, int(tgt_lengths.max()) + 1)
    # Torch's operators index by 64 bits; they would have to cast shorter integers at each use.
    ids = np.full(len(rows) * (shape[1] + 2 * shape[2]), PAD_ID, dtype=np.int64)
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


class EpochBatches:
    """The batches of every epoch. An epoch has each pair once, or as often as ``text`` draws it.

    Batches are a pure function of (text, batch_tokens, seed, epoch, augmentation), so training can
    resume at any batch. As ``augmentation`` changes a batch only after ``plan_epoch`` has chosen
    its pairs, BPE-dropout may make the batch exceed ``batch_tokens``.
    """

    def __init__(
        self,
        text: ShardedText,
        batch_tokens: int,
        seed: int,
        augmentation: Augmentation | None = None,
    ) -> None:
        self.text = text
        self._augmentation = augmentation
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.batches_per_shard: list[int] = []
        self.tokens = SrcTgt(0, 0)
        """The maximum numbers of source and target tokens in an epoch, EOS included."""
        for lengths in map(text.shard_lengths, range(text.num_shards)):
            self.batches_per_shard.append(count_batches(lengths, batch_tokens))
            totals = zip(self.tokens, lengths, strict=True)
            self.tokens = SrcTgt(*(total + int((side + 1).sum()) for total, side in totals))

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return sum(self.batches_per_shard)

    def iter_epoch(self, epoch: int, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches ``first``, ``first + stride``, … of an epoch, one shard at a time."""
        random = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        for shard in random.permutation(self.text.num_shards).tolist():
            count = self.batches_per_shard[shard]
            if indices := range(first, count, stride):
                yield from self.iter_shard(shard, epoch, indices)
            first += len(indices) * stride - count

    def iter_shard(self, shard: int, epoch: int, indices: Iterable[int]) -> Iterator[Batch]:
        """Yield a shard's batches that have these ``indices`` in the result of ``plan_epoch``."""
        text = self.text.draw(shard, self.seed, epoch)
        plan = plan_epoch(
            self.text.shard_lengths(shard), self.batch_tokens, self.seed, epoch, shard
        )
        for index in indices:
            pairs = text.take(plan[index])
            if self._augmentation is not None:
                seeds = np.random.SeedSequence([self.seed, epoch, shard, index])
                pairs = self._augmentation(pairs, int(seeds.generate_state(1)[0]))
            yield collate(pairs)


def prefetch(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """Yield ``items`` in order; from the first request on, a thread stays ``ahead`` items ahead."""
    if ahead == 0:
        yield from items
        return

    def take() -> list[Item]:
        return list(islice(items, 1))  # empty at the end

    executor = ThreadPoolExecutor(1, "prefetch")
    try:
        pending = deque(executor.submit(take) for _ in range(ahead))
        while item := pending.popleft().result():
            pending.append(executor.submit(take))
            yield from item
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
