"""Weights and tags of the training sources, and the pairs drawn from them in each epoch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from transformer_cli.base.errors import CorpusError
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairSource, TextStats
from transformer_cli.data.shards import SHARD_PAIRS, ShardedStore
from transformer_cli.data.store import EncodedStore, EncodedText, Lengths, TokenArray
from transformer_cli.extensions.corpora import prepared
from transformer_cli.extensions.corpora.opening import MAX_BAD_UNITS, ExtendedText, open_source
from transformer_cli.extensions.corpora.settings import (
    MAX_WEIGHT,
    CorpusData,
    Replay,
    added_sources,
    find_replay,
)
from transformer_cli.text.protocol import Tokenizers


@dataclass(frozen=True)
class TrainingMix:
    """The weights and tags of the training sources, in the order in which pairs are stored."""

    sizes: tuple[int, ...]  # how many pairs of each source have text on both sides
    weights: tuple[float, ...]  # how often each pair of a source is drawn in an epoch
    tags: tuple[int | None, ...]  # each source's tag id, before its source sentences; None: no tag
    rows: tuple[tuple[str, str], ...] = ()  # rows (name, value) for the training summary

    def sources_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return the index of each pair's data source; ``pairs`` are indices in training text."""
        return np.searchsorted(np.cumsum(self.sizes, dtype=np.int64), pairs, side="right")

    def count_tags(self, pairs: np.ndarray) -> np.ndarray:
        """Return the number of tag tokens (0 or 1) before each pair's source sentence."""
        has_tag = np.array([tag is not None for tag in self.tags], np.int64)
        return np.take(has_tag, self.sources_of(pairs))

    def add_tags(self, text: EncodedText, pairs: np.ndarray) -> EncodedText:
        """Return ``text`` with tag tokens; ``pairs`` has its pairs' indices in training text."""
        counts = self.count_tags(pairs)
        if not counts.any():
            return text
        tagged = np.flatnonzero(counts)
        tags = np.array([tag or 0 for tag in self.tags], np.int32)[self.sources_of(pairs[tagged])]
        ids = np.insert(text.src.ids, text.src.offsets[tagged], tags)
        return EncodedText(TokenArray.from_lengths(ids, text.src.lengths + counts), text.tgt)


class MixedStore(ShardedStore):
    """A store's pairs up to ``max_length``, tagged, drawn as often as a source's weight says."""

    def __init__(
        self, store: EncodedStore, max_length: int, mix: TrainingMix, shard_pairs: int = SHARD_PAIRS
    ) -> None:
        super().__init__(store, max_length, shard_pairs)
        self.mix = mix

    def shard_lengths(self, shard: int) -> Lengths:
        every, shares, lengths = self._plan(shard)
        # Each pick of a share is one of a few pairs of similar length. Batches are planned for the
        # longest of them, so all epochs have the same number of batches.
        sides = ([side[every], *(share.max_lengths(side) for share in shares)] for side in lengths)
        return Lengths(*map(np.concatenate, sides))

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        every, shares, _ = self._plan(shard)
        random = np.random.Generator(np.random.PCG64([seed, shard]))
        shifts = (random.integers(0, _STEPS, len(shares)) + epoch * _STRIDE) % _STEPS
        picked = (share.pick(int(shift)) for share, shift in zip(shares, shifts, strict=True))
        return super().draw(shard, seed, epoch).take(np.concatenate([every, *picked]))

    def rows(self) -> Iterable[tuple[str, str]]:
        return self.mix.rows

    def read(self, shard: int) -> EncodedText:
        return self.mix.add_tags(super().read(shard), self._places(shard))

    def read_lengths(self, shard: int) -> Lengths:
        src, tgt = super().read_lengths(shard)
        return Lengths(src + self.mix.count_tags(self._places(shard)), tgt)

    def _places(self, shard: int) -> np.ndarray:
        """Return the indices in the training text of a shard's pairs, including long pairs."""
        page_pairs = self.store.record.page_pairs
        firsts = np.array(self.pages(shard)) * page_pairs
        places = (firsts[:, None] + np.arange(page_pairs)).ravel()
        return places[places < len(self.store)]

    def _plan(self, shard: int) -> tuple[np.ndarray, list["_Share"], Lengths]:
        """Return the pairs to draw from a shard's pairs of at most ``max_length`` tokens.

        These are the indices of pairs that each epoch has, once or several times; the shares to
        pick from in each epoch; and the lengths of all these pairs.
        """
        lengths = self.read_lengths(shard)
        short = self.find_short(lengths)
        lengths = Lengths(lengths.src[short], lengths.tgt[short])
        sources = self.mix.sources_of(self._places(shard)[short])
        if all(weight == 1.0 for weight in self.mix.weights):
            return np.arange(len(short)), [], lengths
        every, shares = [np.zeros(0, np.int64)], []
        for number, weight in enumerate(self.mix.weights):
            own = np.flatnonzero(sources == number)
            own = own[np.lexsort((lengths.src[own], lengths.tgt[own]))]
            whole = int(weight)
            every += [own] * whole
            # At least one, so that each shard has pairs of sources with small weights.
            share = max(round((weight - whole) * len(own)), 1 if weight < 1 and len(own) else 0)
            if share:
                shares.append(_Share(own, share))
        return np.concatenate(every), shares, lengths


_STEPS = 1 << 20
_STRIDE = 648_055
"""``_STEPS`` / golden ratio. It is odd, so its multiples mod ``_STEPS`` reach all steps evenly."""


@dataclass(frozen=True)
class _Share:
    """Some pairs of a source, drawn again in each epoch, evenly spaced in the order of length."""

    pairs: np.ndarray  # the indices of all pairs of the source, sorted by length
    count: int  # how many pairs are drawn per epoch

    def pick(self, shift: int) -> np.ndarray:
        """Return an epoch's pairs; all shifts below 2^20 together pick each pair equally often."""
        steps = np.arange(self.count, dtype=np.int64) * _STEPS + shift
        return np.take(self.pairs, steps * len(self.pairs) // (self.count * _STEPS))

    def max_lengths(self, side: np.ndarray) -> np.ndarray:
        """Return each picked pair's maximum length over all shifts, from one language's lengths."""
        draws = np.arange(self.count + 1, dtype=np.int64) * len(self.pairs)
        first, last = draws[:-1] // self.count, -(-draws[1:] // self.count)
        # Add an element, as reduceat accepts no end beyond the array.
        ordered = np.append(side[self.pairs], 0)
        return np.asarray(np.maximum.reduceat(ordered, np.stack((first, last), 1).ravel())[::2])


# --- from the settings ----------------------------------------------------------------------------


def extend_text(data: DataConfig, train: PairSource) -> PairSource:
    """Return the training split followed by the sources in ``data.more`` and ``data.replay``."""
    max_bad_units = data.max_bad_units if isinstance(data, CorpusData) else MAX_BAD_UNITS
    added = {
        name: open_source(source, data.src_lang, data.tgt_lang, max_bad_units)
        for name, source in added_sources(data).items()
    }
    return ExtendedText((train, *added.values()), tuple(added)) if added else train


def mix_store(
    config: Config,
    place: Path | None,
    stats: TextStats,
    tokenizers: Tokenizers,
    store: EncodedStore,
) -> MixedStore | None:
    """Return a store that applies the sources' weights and tags, or None if none are set."""
    data = config.data
    added = [(source.weight, source.tag) for source in added_sources(data).values()]
    if isinstance(data, CorpusData):
        record = None if place is None else prepared.read_corpus_record(place)
        if record is None:
            raise CorpusError(f"{place}: the record of the sources is missing or damaged")
        sizes = [source.kept.get("train", 0) for source in record.sources] + stats.parts[1:]
        settings = [*((source.weight, source.tag) for source in data.sources), *added]
    else:
        sizes = stats.parts
        settings = [(1.0, None), *added]
    replay = find_replay(data)
    if replay is None and all(setting == (1.0, None) for setting in settings):
        return None
    weights, tags = zip(*settings, strict=True)
    ids = tuple(
        None if tag is None else tokenizers.tagged(tag).encode_source("").start[0] for tag in tags
    )
    mix, max_length = TrainingMix(tuple(sizes), weights, ids), config.training.max_length
    if replay is not None:
        mix = _weigh_replay(replay, mix, store, max_length)
    return MixedStore(store, max_length, mix)


def _weigh_replay(
    replay: Replay, mix: TrainingMix, store: EncodedStore, max_length: int
) -> TrainingMix:
    """Return the mix, with new weights, so that ``replay.share`` of each epoch is replayed text."""
    short = _count_short_pairs(mix, store, max_length)
    count = len(replay.sources)
    own, replayed = np.split(np.array(mix.weights) * short, [-count])
    for name, pairs in (("split 'train'", own), ("data.replay", replayed)):
        if not pairs.any():
            raise CorpusError(
                f"{name}: every pair has a blank side or is longer than training.max_length "
                f"{max_length} tokens; raise it, or use other text"
            )
    factor = float(replay.share / (1 - replay.share) * own.sum() / replayed.sum())
    scaled = [weight * factor for weight in mix.weights[-count:]]
    weight = max(scaled)
    if weight > MAX_WEIGHT:
        raise CorpusError(
            f"data.replay: with share {replay.share:g}, a pair would be drawn {weight:,.0f} times "
            f"an epoch, but the limit is {MAX_WEIGHT:,.0f}; lower share, or add more text"
        )
    weights = (*mix.weights[:-count], *scaled)
    drawn = np.array(weights) * short
    described = (
        f"{drawn[-count:].sum():,.0f} of {drawn.sum():,.0f} pairs an epoch, drawn from "
        f"{short[-count:].sum():,}"
    )
    return replace(mix, weights=weights, rows=(("replay", described),))


def _count_short_pairs(mix: TrainingMix, store: EncodedStore, max_length: int) -> np.ndarray:
    """Count each source's pairs with at most ``max_length`` tokens per side, tags included."""
    counts = np.zeros(len(mix.sizes), np.int64)
    first = 0
    for lengths in store.read_lengths(range(store.num_pages)):
        pairs = np.arange(first, first + len(lengths.src))
        first += len(pairs)
        longest = np.maximum(lengths.src + mix.count_tags(pairs), lengths.tgt)
        counts += np.bincount(mix.sources_of(pairs[longest <= max_length]), minlength=len(counts))
    return counts
