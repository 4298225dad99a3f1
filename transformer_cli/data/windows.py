"""A corpus of any size seen through windows, each an even sample of it that fits into memory."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from transformer_cli.data.batches import Batch, collate, count_batches, plan_epoch
from transformer_cli.data.encoded import EncodedText
from transformer_cli.data.store import EncodedStore

WINDOW_PAIRS = 131_072
"""Most pairs of a window: some 15 MB of captions, and enough for batches of like lengths."""
PAGE_PAIRS = 256
"""Neighbouring pairs that stay together, so that they are read in one go."""


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


class StoredWindows:
    """The pairs of a store that are not too long to train on; none of them is held.

    Window k of K has the pages k, k + K, k + 2K, …, so each is an even sample of the corpus, in
    whatever order that is. Where one window is enough, it is the corpus itself.

    Args:
        store: the whole text.
        max_length: most tokens of a side of a pair that is trained on.
        window_pairs: most pairs of a window, a multiple of ``page_pairs``.
        page_pairs: neighbouring pairs of a page.
    """

    def __init__(
        self,
        store: EncodedStore,
        max_length: int,
        window_pairs: int = WINDOW_PAIRS,
        page_pairs: int = PAGE_PAIRS,
    ) -> None:
        self._store = store
        self._max_length = max_length
        self._page_pairs = page_pairs
        pages = -(-len(store) // page_pairs)
        self._windows = -(-pages // (window_pairs // page_pairs))
        self._pairs = sum(len(self.window_lengths(number)[0]) for number in range(self._windows))

    def __len__(self) -> int:
        return self._pairs

    @property
    def windows(self) -> int:
        """The number of windows."""
        return self._windows

    def window(self, number: int) -> EncodedText:
        """The pairs of a window, counted from 0, apart from those that are too long."""
        runs = []
        for page in self._pages(number):
            edges = np.diff(self._are_kept(*self._store.lengths([page])), prepend=0, append=0)
            # Where it changes, a run of kept pairs begins or ends, by turns.
            for start, end in np.flatnonzero(edges).reshape(-1, 2).tolist():
                runs.append(page[start:end])
        return self._store.read(runs)

    def window_lengths(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of source and target of the pairs of ``window(number)``."""
        src, tgt = self._store.lengths(self._pages(number))
        kept = self._are_kept(src, tgt) == 1
        return src[kept], tgt[kept]

    def _are_kept(self, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> np.ndarray:
        """1 for each pair that is trained on, 0 for each that is too long."""
        longest: np.ndarray = np.maximum(src_lengths, tgt_lengths)
        return (longest <= self._max_length).astype(np.int8)

    def _pages(self, number: int) -> list[range]:
        pairs, size = range(len(self._store)), self._page_pairs
        return [
            pairs[start : start + size] for start in pairs[number * size :: self._windows * size]
        ]


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

    def _of_window(self, number: int, epoch: int, places: range) -> Iterator[Batch]:
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
