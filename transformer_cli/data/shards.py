"""Shards of a corpus: each is an even sample of it that fits into memory."""

from typing import Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from transformer_cli.artifact import read_record, write_record
from transformer_cli.data.batches import count_batches
from transformer_cli.data.mixing import EpochSampler, TrainingMix
from transformer_cli.data.store import EncodedStore
from transformer_cli.data.token_arrays import EncodedText, Lengths, TokenArray

SHARD_PAIRS = 131_072
"""Most pairs of a shard: some 15 MB of captions, and enough to bucket by length."""
_COUNTS = "batches.json"


class ShardedText(Protocol):
    """Text to train on, in shards whose pairs never change."""

    @property
    def num_shards(self) -> int:
        """Number of shards."""

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard, counted from 0."""

    def shard_lengths(self, number: int) -> Lengths:
        """Return tokens of each pair's source and target, in the order of ``shard(number)``."""

    def draws(self, number: int) -> EpochSampler | None:
        """Return the draws of a shard; None: each pair is trained on once an epoch."""


class _BatchCounts(BaseModel):
    """Content of batches.json: numbers of pairs and batches, and the settings they hold for."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    text_sha256: str = Field(alias="text_sum")
    tokenizer: str
    page_pairs: int
    shard_pairs: int = Field(alias="window_pairs")
    max_length: int
    batch_tokens: int
    mix: str = ""
    """Fingerprint of the mix."""
    pairs: int
    """Of all shards."""
    batches: list[int]
    """Of each shard."""

    def has_settings_of(self, other: "_BatchCounts") -> bool:
        """Return whether both hold for the same settings."""
        return self == other.model_copy(update={"pairs": self.pairs, "batches": self.batches})


class ShardedStore:
    """The pairs of a store that are short enough to train on, in shards; none is kept in memory.

    Shard k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus,
    whatever its order. A corpus that fits into one shard keeps its order.

    Args:
        store: the whole text.
        max_length: most tokens of a side of a pair to train on.
        batch_tokens: as in ``plan_epoch``.
        shard_pairs: most pairs of a shard, a multiple of those of a page.
        mix: weights and tags of the text's sources; None: all are alike, without tags.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        batch_tokens: int,
        shard_pairs: int = SHARD_PAIRS,
        mix: TrainingMix | None = None,
    ) -> None:
        self._store = store
        self._mix = mix
        self._max_length = max_length
        self._counts_path = store.directory / _COUNTS
        self.batch_tokens = batch_tokens
        self.num_shards = -(-store.num_pages // (shard_pairs // store.page_pairs))
        wanted = _BatchCounts(
            text_sha256=store.text_sha256,
            tokenizer=store.tokenizer,
            page_pairs=store.page_pairs,
            shard_pairs=shard_pairs,
            max_length=max_length,
            batch_tokens=batch_tokens,
            mix="" if mix is None else mix.fingerprint,
            pairs=0,
            batches=[],
        )
        saved = read_record(self._counts_path, _BatchCounts)
        self._are_saved = saved is not None and saved.has_settings_of(wanted)
        self._counts = saved if saved is not None and self._are_saved else self._count(wanted)

    def __len__(self) -> int:
        return self._counts.pairs

    @property
    def batches(self) -> list[int]:
        """Number of batches of each shard, the same in every epoch, by ``batch_tokens``."""
        return self._counts.batches

    def save_counts(self) -> None:
        """Write the numbers of pairs and batches into the store, so that later sessions read them.

        Call it only where no other process writes to the store.

        Raises:
            OSError: they cannot be written.
        """
        if not self._are_saved:
            write_record(self._counts_path, self._counts)
            self._are_saved = True

    def shard(self, number: int) -> EncodedText:
        """Return the pairs of a shard, counted from 0."""
        src, tgt = [], []
        numbers = self._pages(number)
        for place, page in zip(numbers, self._store.read_pages(numbers), strict=True):
            if self._mix is not None:
                first = place * self._store.page_pairs
                page = self._mix.add_tags(page, np.arange(first, first + len(page)))
            mask = self._are_short(page.lengths)
            src.append(page.src.filter(mask))
            tgt.append(page.tgt.filter(mask))
        return EncodedText(TokenArray.concatenate(src), TokenArray.concatenate(tgt))

    def shard_lengths(self, number: int) -> Lengths:
        """Return tokens of each pair's source and target, in the order of ``shard(number)``."""
        lengths = self._all_lengths(number)
        mask = self._are_short(lengths)
        return Lengths(lengths.src[mask], lengths.tgt[mask])

    def draws(self, number: int) -> EpochSampler | None:
        """Return the draws of a shard; None: each pair is trained on once an epoch."""
        if self._mix is None:
            return None
        lengths = self._all_lengths(number)
        mask = self._are_short(lengths)
        short = Lengths(lengths.src[mask], lengths.tgt[mask])
        return self._mix.build_draws(short, self._places(number)[mask])

    def _all_lengths(self, number: int) -> Lengths:
        """Return the lengths of a shard's pairs, of those too, that are too long."""
        none = np.zeros(0, np.int64)
        sides = zip((none, none), *self._store.read_lengths(self._pages(number)), strict=True)
        lengths = Lengths(*map(np.concatenate, sides))
        if self._mix is None:
            return lengths
        return Lengths(lengths.src + self._mix.count_tags(self._places(number)), lengths.tgt)

    def _places(self, number: int) -> np.ndarray:
        """Return the places of a shard's pairs in the whole text."""
        size = self._store.page_pairs
        starts = np.array(self._pages(number), np.int64) * size
        places = (starts[:, None] + np.arange(size)).ravel()
        return places[places < self._store.pairs]

    def _are_short(self, lengths: Lengths) -> np.ndarray:
        """Return a mask of the pairs that are at most ``max_length`` long."""
        mask: np.ndarray = np.maximum(lengths.src, lengths.tgt) <= self._max_length
        return mask

    def _pages(self, number: int) -> range:
        return range(number, self._store.num_pages, self.num_shards)

    def _count(self, counts: _BatchCounts) -> _BatchCounts:
        pairs, batches = 0, []
        for number in range(self.num_shards):
            lengths = self.shard_lengths(number)
            pairs += len(lengths.src)
            draws = self.draws(number)
            drawn = lengths if draws is None else draws.lengths
            batches.append(count_batches(drawn, counts.batch_tokens))
        return counts.model_copy(update={"pairs": pairs, "batches": batches})


def count_short_pairs(store: EncodedStore, max_length: int, mix: TrainingMix) -> np.ndarray:
    """Return how many pairs of each source are at most ``max_length`` long, tags included."""
    counts = np.zeros(len(mix.sizes), np.int64)
    first = 0
    for lengths in store.read_lengths(range(store.num_pages)):
        pairs = np.arange(first, first + len(lengths.src))
        first += len(pairs)
        longest = np.maximum(lengths.src + mix.count_tags(pairs), lengths.tgt)
        counts += np.bincount(mix.sources_of(pairs[longest <= max_length]), minlength=len(counts))
    return counts
