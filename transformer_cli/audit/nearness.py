"""How near the splits that are scored are to the training text, by a sample of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from transformer_cli.config.data_schema import CopyData, CorpusData, DataConfig, ToyData
from transformer_cli.data.corpus import PairProgress, PairSource
from transformer_cli.data.near_copies import (
    BANDS,
    MAX_HELD_OUT,
    NEAR,
    HeldOutPairs,
    Pairs,
    find_bands,
)
from transformer_cli.data.prepared import given_sources
from transformer_cli.data.training_text import keep_full
from transformer_cli.text.protocol import draw_places

LOOKED_FOR = 20_000
"""First pairs of a split that are looked for in the training text, all or a sample."""
_LARGE_SHARE = 0.2  # of near-copies
_COMPARED = 1000  # pairs of a split, which tell a share to 3 %
_SHOWN = 3


@dataclass(frozen=True)
class Nearness:
    """How near a split is to the training text."""

    name: str
    compared: int  # pairs
    shares: list[float]  # of these, by band of the similarity to the nearest
    near: int  # near-copies among them
    examples: list[str]  # a few of those

    @property
    def is_large(self) -> bool:
        """Whether near-copies are so many that scores flatter."""
        return self.near > 0 and self.near >= _LARGE_SHARE * self.compared

    def describe(self) -> str:
        """Return the shares in words."""
        bands = ("less", *map(str, BANDS[:-1]), f"{BANDS[-1]} or more")
        shares = [f"{band} {share:.0%}" for band, share in zip(bands, self.shares, strict=True)]
        return f"similarity to the nearest training pair: {', '.join(reversed(shares))}"

    def warn(self, data: DataConfig) -> str:
        """Return what is to be said of the near-copies."""
        is_drawn = isinstance(data, CorpusData) and self.name not in given_sources(data)
        advice = "; data.split: {near: apart} leaves those out of training" if is_drawn else ""
        return f"have near-copies in the training text, which flatter scores{advice}"


class Samples:
    """Some pairs of each split, to be compared with the training text."""

    def __init__(self, splits: Mapping[str, Pairs], languages: tuple[str, str]) -> None:
        size = min(_COMPARED, MAX_HELD_OUT // max(len(splits), 1))
        self._pairs = {
            name: [pairs[place] for place in draw_places(len(pairs), size)]
            for name, pairs in splits.items()
        }
        self.held_out = HeldOutPairs([*chain.from_iterable(self._pairs.values())], languages)

    def conclude(self, nearest: np.ndarray) -> list[Nearness]:
        """Return how near each split is, by the greatest similarities to the training text."""
        found = []
        for name, pairs in self._pairs.items():
            own, nearest = np.split(nearest, [len(pairs)])
            shares = np.bincount(find_bands(own), minlength=len(BANDS) + 1) / max(len(pairs), 1)
            near = np.flatnonzero(own >= NEAR).tolist()
            examples = [f"{pairs[place][0]} ({own[place]:.2f})" for place in near[:_SHOWN]]
            found.append(Nearness(name, len(pairs), shares.tolist(), len(near), examples))
        return found


def find_nearness(
    data: DataConfig, sources: Sequence[tuple[str, PairSource, bool]], progress: PairProgress
) -> list[Nearness]:
    """Compare splits with all that is trained on, by name, text and whether it is trained on."""
    if isinstance(data, CopyData | ToyData):  # of few words, so that all is near
        return []
    splits = {
        name: list(islice(keep_full(source.pairs()), LOOKED_FOR))
        for name, source, is_trained in sources
        if not is_trained
    }
    samples = Samples(splits, (data.src_lang, data.tgt_lang))
    nearest = [
        samples.held_out.find_nearest(progress(source.pairs(), f"{name}, near-copies"))
        for name, source, is_trained in sources
        if is_trained
    ]
    return samples.conclude(np.max(nearest, axis=0))
