"""A corpus of any size seen through windows, each an even sample of it that fits into memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from transformer_cli.data.batches import Batch, collate, count_batches, plan_epoch
from transformer_cli.data.encoded import EncodedText, TokenStore
from transformer_cli.data.sealed import read_sealed, write_sealed
from transformer_cli.data.store import EncodedStore

WINDOW_PAIRS = 131_072
"""Most pairs of a window: some 15 MB of captions, and enough for batches of like lengths."""
_NOTES = "batches.json"

Resegment = Callable[[EncodedText, int], EncodedText]
"""Gives the same pairs in other tokens, which a number from 0 to 2^32 - 1 decides."""


class WindowedText(Protocol):
    """Text to train on, in windows whose pairs are always the same."""

    @property
    def windows(self) -> int:
        """The number of windows."""

    def window(self, number: int) -> EncodedText:
        """The pairs of a window, counted from 0."""

    def window_lengths(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of source and target of the window's pairs, in their order."""


class _Counts(BaseModel):
    """How many pairs and batches there are, and of what."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text_sum: str
    tokenizer: str
    page_pairs: int
    window_pairs: int
    max_length: int
    batch_tokens: int
    pairs: int
    """Of all windows."""
    batches: list[int]
    """Of each window."""

    def are_of(self, other: "_Counts") -> bool:
        """Whether both count the same things."""
        return self == other.model_copy(update={"pairs": self.pairs, "batches": self.batches})


class StoredWindows:
    """The pairs of a store that are not too long to train on; none of them is held.

    Window k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus, in
    whatever order that is. Where one window is enough, it is the corpus itself.

    Args:
        store: the whole text.
        max_length: most tokens of a side of a pair that is trained on.
        batch_tokens: as ``plan_epoch`` is given.
        window_pairs: most pairs of a window, a multiple of those of a page.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        batch_tokens: int,
        window_pairs: int = WINDOW_PAIRS,
    ) -> None:
        self._store = store
        self._max_length = max_length
        self._windows = -(-store.pages // (window_pairs // store.page_pairs))
        wanted = _Counts(
            text_sum=store.text_sum,
            tokenizer=store.tokenizer,
            page_pairs=store.page_pairs,
            window_pairs=window_pairs,
            max_length=max_length,
            batch_tokens=batch_tokens,
            pairs=0,
            batches=[],
        )
        noted = read_sealed(self._notes, _Counts)
        self._are_noted = noted is not None and noted.are_of(wanted)
        self._counts = noted if noted is not None and self._are_noted else self._count(wanted)

    def __len__(self) -> int:
        return self._counts.pairs

    @property
    def windows(self) -> int:
        """The number of windows."""
        return self._windows

    @property
    def batch_tokens(self) -> int:
        """What ``batches`` counts with."""
        return self._counts.batch_tokens

    @property
    def batches(self) -> list[int]:
        """How many batches ``plan_epoch`` makes of each window, in every epoch alike."""
        return self._counts.batches

    def note_counts(self) -> None:
        """Write the numbers of pairs and batches into the store, so that they need no counting.

        Only who may write to the store may do so.

        Raises:
            OSError: they cannot be written.
        """
        if not self._are_noted:
            write_sealed(self._notes, self._counts)
            self._are_noted = True

    def window(self, number: int) -> EncodedText:
        """The pairs of a window, counted from 0."""
        src, tgt = [], []
        for page in self._store.read(self._pages(number)):
            kept = self._are_kept(page.src.lengths, page.tgt.lengths)
            src.append(page.src.where(kept))
            tgt.append(page.tgt.where(kept))
        return EncodedText(TokenStore.joined(src), TokenStore.joined(tgt))

    def window_lengths(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of source and target of the pairs of ``window(number)``."""
        none = np.zeros(0, np.int64)
        sides = zip((none, none), *self._store.lengths(self._pages(number)), strict=True)
        src, tgt = (np.concatenate(side) for side in sides)
        kept = self._are_kept(src, tgt)
        return src[kept], tgt[kept]

    def _are_kept(self, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> np.ndarray:
        """Which pairs are trained on, being not too long."""
        kept: np.ndarray = np.maximum(src_lengths, tgt_lengths) <= self._max_length
        return kept

    def _pages(self, number: int) -> range:
        return range(number, self._store.pages, self._windows)

    @property
    def _notes(self) -> Path:
        return self._store.directory / _NOTES

    def _count(self, counts: _Counts) -> _Counts:
        pairs, batches = 0, []
        for number in range(self._windows):
            src_lengths, tgt_lengths = self.window_lengths(number)
            pairs += len(src_lengths)
            batches.append(count_batches(src_lengths, tgt_lengths, counts.batch_tokens))
        return counts.model_copy(update={"pairs": pairs, "batches": batches})


@dataclass(frozen=True)
class Sample:
    """What an epoch is like, told from one window, and a few of that window's batches."""

    tokens: tuple[int, int]
    """Of source and target in an epoch, end marks included."""
    computed: tuple[int, int]
    """The same with padding."""
    is_exact: bool
    """Whether there is nothing to train on beside that window."""
    batches: Iterator[Batch]
    """The largest one first, then some of ever longer sentences."""


class EpochBatches:
    """The batches of every epoch: all pairs once, window after window.

    Batches are a function of (text, batch_tokens, seed, epoch, resegment): any of them can be gone
    on from.

    Args:
        text: what to train on.
        batch_tokens: most tokens of a side of a batch, end mark and padding included.
        seed: the experiment's seed.
        resegment: gives a batch's pairs in other tokens, as a number decides that is another one
            for each batch. Batches are planned before that, so they may then hold more tokens.
    """

    def __init__(
        self,
        text: WindowedText,
        batch_tokens: int,
        seed: int,
        resegment: Resegment | None = None,
    ) -> None:
        self._text = text
        self._resegment = resegment
        self._batch_tokens = batch_tokens
        self._seed = seed
        # Sorted by length, a window has the same number of batches in every epoch.
        if isinstance(text, StoredWindows) and text.batch_tokens == batch_tokens:
            self._counts = text.batches
        else:
            self._counts = [
                count_batches(*text.window_lengths(number), batch_tokens)
                for number in range(text.windows)
            ]

    def __len__(self) -> int:
        """Batches of an epoch."""
        return sum(self._counts)

    def of_epoch(self, epoch: int, first: int = 0, step: int = 1) -> Iterator[Batch]:
        """The batches of an epoch, counted from 0: ``first``, ``first + step``, and so on.

        One window at a time is in memory.
        """
        for number in self._order(epoch):
            count = self._counts[number]
            if first < count:
                yield from self._of_window(number, epoch, range(first, count, step))
                first += len(range(first, count, step)) * step
            first -= count

    def sample(self, count: int) -> Sample:
        """A look at the first epoch.

        Args:
            count: most batches to give.
        """
        number = int(np.argmax(self._counts))
        lengths = np.stack(self._text.window_lengths(number)) + 1
        plan = plan_epoch(self._text.window(number), self._batch_tokens, self._seed, 0, number)
        longest = np.array([lengths[:, indices].max(axis=1) for indices in plan])
        padded = longest * np.array([[len(indices)] for indices in plan])
        # Each window is an even sample of the text.
        share = len(self) / self._counts[number]
        tokens = (lengths.sum(axis=1) * share).round().astype(int).tolist()
        computed = (padded.sum(axis=0) * share).round().astype(int).tolist()
        by_length = np.argsort(longest.max(axis=1), kind="stable")
        middles = (2 * np.arange(count - 1) + 1) * len(plan) // (2 * max(1, count - 1))
        places = [int(padded.sum(axis=1).argmax()), *by_length[middles].tolist()]
        batches = self._of_window(number, 0, places)
        return Sample((tokens[0], tokens[1]), (computed[0], computed[1]), share == 1.0, batches)

    def _of_window(self, number: int, epoch: int, places: Iterable[int]) -> Iterator[Batch]:
        text = self._text.window(number)
        plan = plan_epoch(text, self._batch_tokens, self._seed, epoch, number)
        for place in places:
            indices = plan[place]
            if self._resegment is None:
                yield collate(text, indices)
            else:
                draw = np.random.SeedSequence([self._seed, epoch, number, place])
                pairs = self._resegment(text.take(indices), int(draw.generate_state(1)[0]))
                yield collate(pairs, np.arange(len(pairs)))

    def _order(self, epoch: int) -> list[int]:
        """The windows' numbers in the order of an epoch."""
        random = np.random.Generator(np.random.PCG64([self._seed, epoch]))
        order: list[int] = random.permutation(self._text.windows).tolist()
        return order
