"""The batches of each epoch: sentences of similar length, padded, shard after shard."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from transformer_cli.data.token_arrays import (
    EncodedText,
    EveryPair,
    Sampler,
    SrcTgt,
    TokenArray,
    count_batches,
    plan_epoch,
)
from transformer_cli.text.protocol import Tokenizer
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Ids = TypeVar("Ids", np.ndarray, Tensor)
Item = TypeVar("Item")


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
        """Rows of the source."""
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


def _count_ids(shape: tuple[int, int, int]) -> int:
    rows, src_length, tgt_length = shape
    return rows * (src_length + 2 * tgt_length)


def _split_sides(ids: Ids, shape: tuple[int, int, int]) -> tuple[Ids, Ids, Ids]:
    """Return the rows of a batch's source, decoder input and labels as views of its buffer."""
    rows, src_length, tgt_length = shape
    src = ids[: rows * src_length].reshape(rows, src_length)
    tgt = ids[rows * src_length :].reshape(2, rows, tgt_length)
    return src, tgt[0], tgt[1]


def collate(pairs: EncodedText) -> Batch:
    """Return pairs as a padded batch."""
    rows = np.arange(len(pairs))
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


class ShardedText(Protocol):
    """Text to train on, in shards whose pairs never change."""

    @property
    def num_shards(self) -> int:
        """Number of shards."""

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard, counted from 0."""

    def sampler(self, number: int) -> Sampler:
        """Return what draws the pairs of a shard."""


Augmentation = Callable[[EncodedText, int], EncodedText]
"""(pairs of a batch, 32-bit seed) -> the same text, cut or put together otherwise."""


@dataclass(frozen=True)
class EpochSample:
    """Estimates of an epoch from its largest shard, and a few of that shard's batches."""

    tokens: SrcTgt[int]
    """Tokens in an epoch, EOS included."""
    padded_tokens: SrcTgt[int]
    """The same with padding."""
    is_exact: bool
    """Whether that shard is the whole text, so that the numbers are exact."""
    batches: Iterator[Batch]
    """The largest one first, then some in order of length."""


class EpochBatches:
    """The batches of every epoch, which has all pairs once, or as often as their weights say.

    Batches are a pure function of (text, batch_tokens, seed, epoch, augmentation), so that
    training can resume at any of them. They are planned before ``augmentation`` changes each, so
    that one with BPE-dropout may exceed the budget of tokens; see ``plan_epoch``.
    """

    def __init__(
        self,
        text: ShardedText,
        batch_tokens: int,
        seed: int,
        augmentation: Augmentation | None = None,
    ) -> None:
        self._text = text
        self._augmentation = augmentation
        self._batch_tokens = batch_tokens
        self._seed = seed
        samplers = map(text.sampler, range(text.num_shards))
        self._batches_per_shard = [count_batches(each.lengths, batch_tokens) for each in samplers]

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return sum(self._batches_per_shard)

    def iter_epoch(self, epoch: int, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches ``first``, ``first + stride``, … of an epoch, a shard at a time."""
        random = np.random.Generator(np.random.PCG64([self._seed, epoch]))
        for shard in random.permutation(self._text.num_shards).tolist():
            count = self._batches_per_shard[shard]
            if first < count:
                yield from self._iter_shard(shard, epoch, range(first, count, stride))
                first += len(range(first, count, stride)) * stride
            first -= count

    def sample(self, count: int) -> EpochSample:
        """Return estimates of the first epoch, and at most ``count`` of its batches."""
        shard = int(np.argmax(self._batches_per_shard))
        sampler = self._text.sampler(shard)
        plan = plan_epoch(sampler.lengths, self._batch_tokens, self._seed, 0, shard)
        lengths = np.stack(sampler.lengths) + 1
        longest = np.array([lengths[:, indices].max(axis=1) for indices in plan])
        padded = longest * np.array([[len(indices)] for indices in plan])
        # Scaling is fair, since each shard is an even sample of the text.
        scale = len(self) / self._batches_per_shard[shard]
        tokens, padded_tokens = (
            SrcTgt(*(totals * scale).round().astype(int).tolist())
            for totals in (lengths.sum(axis=1), padded.sum(axis=0))
        )
        by_length = np.argsort(longest.max(axis=1), kind="stable")
        middles = (2 * np.arange(count - 1) + 1) * len(plan) // (2 * max(1, count - 1))
        indices = [int(padded.sum(axis=1).argmax()), *by_length[middles].tolist()]
        batches = self._iter_shard(shard, 0, indices)
        is_exact = scale == 1.0 and isinstance(sampler, EveryPair)
        return EpochSample(tokens, padded_tokens, is_exact, batches)

    def _iter_shard(self, shard: int, epoch: int, indices: Iterable[int]) -> Iterator[Batch]:
        text, sampler = self._text.shard(shard), self._text.sampler(shard)
        plan = plan_epoch(sampler.lengths, self._batch_tokens, self._seed, epoch, shard)
        drawn = sampler.pick(self._seed, epoch, shard)
        for index in indices:
            pairs = text.take(drawn[plan[index]])
            if self._augmentation is not None:
                seeds = np.random.SeedSequence([self._seed, epoch, shard, index])
                pairs = self._augmentation(pairs, int(seeds.generate_state(1)[0]))
            yield collate(pairs)


def prefetch(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """Yield ``items`` in order; once asked for the first, a thread makes ``ahead`` of the next."""
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


@dataclass(frozen=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): merges are left out, at a rate for each side.

    A sentence that would get more than ``max_length`` tokens keeps its segmentation, and so does
    one with an unknown token.
    """

    src: Tokenizer
    tgt: Tokenizer
    src_rate: float
    tgt_rate: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same pairs in subwords drawn with ``seed``."""
        return EncodedText(
            self._sample(text.src, self.src, self.src_rate, seed),
            # Other draws than the source's.
            self._sample(text.tgt, self.tgt, self.tgt_rate, seed ^ 1),
        )

    def _sample(self, side: TokenArray, tokenizer: Tokenizer, rate: float, seed: int) -> TokenArray:
        if not rate:
            return side
        whole: list[list[int]] = [side[index].tolist() for index in range(len(side))]
        sampled = tokenizer.sample(whole, rate, seed)
        return TokenArray.from_sentences(
            # The ids no longer tell which text an unknown token stands for.
            new if len(new) <= self.max_length and UNK_ID not in old else old
            for old, new in zip(whole, sampled, strict=True)
        )


@dataclass(frozen=True)
class Concatenation:
    """Concatenation of random pairs (Nguyen et al. 2021), so that longer text is learned too.

    Each row of a batch becomes n pairs, one after another, with probability
    ``probability ** (n - 1) * (1 - probability)``, of at most ``max_length`` tokens a side.
    """

    probability: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the pairs in fewer, longer rows, drawn with ``seed``."""
        random = np.random.Generator(np.random.PCG64(seed))
        # One draw a batch: its pairs are of similar length, so that its rows stay so.
        longest = max(int(side.max(initial=1)) for side in text.lengths)
        pairs = min(int(random.geometric(1 - self.probability)), self.max_length // longest)
        if pairs < 2:
            return text
        shuffled = text.take(random.permutation(len(text)))
        return EncodedText(*(_join(side, pairs) for side in (shuffled.src, shuffled.tgt)))


def _join(side: TokenArray, sentences: int) -> TokenArray:
    # Rows are told apart by their offsets alone; the last row may have fewer sentences.
    return TokenArray(side.ids, np.append(side.offsets[:-1:sentences], side.offsets[-1]))
