"""The batches of each epoch, shard after shard."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from transformer_cli.data.batches import Batch, collate, count_batches, plan_epoch
from transformer_cli.data.shards import ShardedStore, ShardedText
from transformer_cli.data.token_arrays import EncodedText, Lengths, SrcTgt

SubwordSampler = Callable[[EncodedText, int], EncodedText]
"""(pairs, 32-bit seed) -> the pairs, segmented anew by BPE-dropout."""


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
    """The batches of every epoch; each epoch has all pairs once, or as often as their weights say.

    Batches are a pure function of (text, batch_tokens, seed, epoch, subword_sampler), so that
    training can resume at any of them.

    Args:
        text: what to train on.
        batch_tokens: token budget: maximum tokens per side of a batch, EOS and padding included.
        seed: the experiment's seed.
        subword_sampler: segments each batch anew, with a seed of its own. Batches are planned
            before that, so they may then exceed the budget.
    """

    def __init__(
        self,
        text: ShardedText,
        batch_tokens: int,
        seed: int,
        subword_sampler: SubwordSampler | None = None,
    ) -> None:
        self._text = text
        self._subword_sampler = subword_sampler
        self._batch_tokens = batch_tokens
        self._seed = seed
        # As its pairs are sorted by length, a shard has the same number of batches in every epoch.
        if isinstance(text, ShardedStore) and text.batch_tokens == batch_tokens:
            self._batches_per_shard = text.batches
        else:
            self._batches_per_shard = [
                count_batches(self._lengths(shard), batch_tokens)
                for shard in range(text.num_shards)
            ]

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return sum(self._batches_per_shard)

    def iter_epoch(self, epoch: int, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches ``first``, ``first + stride``, … of an epoch, counted from 0.

        Only one shard is in memory at a time.
        """
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
        lengths = np.stack(self._lengths(shard)) + 1
        draws = self._text.draws(shard)
        planned = self._text.shard(shard) if draws is None else draws
        plan = plan_epoch(planned, self._batch_tokens, self._seed, 0, shard)
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
        is_exact = scale == 1.0 and draws is None
        return EpochSample(tokens, padded_tokens, is_exact, batches)

    def _lengths(self, shard: int) -> Lengths:
        """Return the lengths by which the batches of a shard are planned."""
        draws = self._text.draws(shard)
        return self._text.shard_lengths(shard) if draws is None else draws.lengths

    def _iter_shard(self, shard: int, epoch: int, indices: Iterable[int]) -> Iterator[Batch]:
        text = self._text.shard(shard)
        draws = self._text.draws(shard)
        planned = text if draws is None else draws
        plan = plan_epoch(planned, self._batch_tokens, self._seed, epoch, shard)
        if draws is not None:
            drawn = draws.pick(self._seed, epoch, shard)
            plan = [drawn[batch] for batch in plan]
        for index in indices:
            if self._subword_sampler is None:
                yield collate(text, plan[index])
            else:
                seeds = np.random.SeedSequence([self._seed, epoch, shard, index])
                seed = int(seeds.generate_state(1)[0])
                pairs = self._subword_sampler(text.take(plan[index]), seed)
                yield collate(pairs, np.arange(len(pairs)))
