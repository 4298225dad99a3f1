"""Detect sources and targets that are misaligned because a line was lost or added.

Line n of the source is compared with lines n - 3 to n + 3 of the target, using what translations
usually keep: the length, and numbers, names, placeholders and symbols. The target is shifted by k
if line n + k fits better than line n over more lines than chance explains. Memory is bounded,
because longer splits are divided into larger blocks.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from transformer_cli.data.corpus import BATCH_PAIRS

_REACH = 3
_OFFSETS = (0, -3, -2, -1, 1, 2, 3)
_MIN_BLOCK, _MAX_BLOCKS = 16, 1 << 15  # powers of two
_REMEMBERED = 1 << 16
"""The number of pairs remembered, to ignore repeated pairs: in a corpus that repeats a few lines,
their chance similarities would otherwise seem significant."""

_SMOOTHING = 10  # limits the weight of short lines, which vary most
_FARTHEST = 1.5  # largest difference of log lengths: a line ten times too long is one bad line
_SHARED, _MAX_SHARED = 0.5, 3  # the value of a shared number, in log length; and the most counted
_MARK = re.compile(r"\d+|[A-Z]\w+|[^\w\s.,'-]\w*")

# All in standard deviations of one line's evidence.
_SWITCH = 10.0  # the least gain for a change of offset, in blocks of the smallest size
_SIGNIFICANT = 7.0  # the least sum of a stretch, divided by the square root of its lines
_STRONG = 0.15  # its least mean: in a large corpus, the faintest similarity is significant


@dataclass(frozen=True)
class Shift:
    """Consecutive pairs in which source line n matches target line n + ``offset``."""

    offset: int
    first: int  # index of the first pair, plus or minus margin
    end: int  # index after the last pair, plus or minus margin
    margin: int

    def describe(self, pairs: int) -> str:
        """Return a message about the lines and the likely cause; ``pairs`` is the split's size."""
        begin = f"about line {self.first + 1:,}" if self.first else "line 1"
        end = "on" if self.end == pairs else f"to about line {self.end:,}"
        accuracy = f" (± {self.margin:,})" if self.first or self.end < pairs else ""
        lines = abs(self.offset)
        missing, added = ("a line is", "one") if lines == 1 else (f"{lines} lines are", f"{lines}")
        short, long = ("source", "target") if self.offset > 0 else ("target", "source")
        return (
            f"from {begin} {end}{accuracy} source line n matches target line n{self.offset:+d}: "
            f"{missing} missing in the {short}, or {added} too many in the {long}"
        )


class ShiftCheck:
    """A check that takes all pairs of a split in order, and finds where one side is shifted."""

    def __init__(self) -> None:
        self.pairs = 0
        self._block = _MIN_BLOCK
        self._blocks: list[np.ndarray] = []
        # Pairs that were not examined yet, and their neighbours.
        self._lengths: list[tuple[float, float]] = []
        self._is_new: list[bool] = []
        self._seen = [0] * _REMEMBERED
        self._marks: list[tuple[frozenset[str], frozenset[str]]] = []

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for src, tgt in pairs:
            self.pairs += 1
            pair = hash((src, tgt))
            self._is_new.append(self._seen[pair % _REMEMBERED] != pair)
            self._seen[pair % _REMEMBERED] = pair
            self._lengths.append((len(src), len(tgt)))
            self._marks.append((frozenset(_MARK.findall(src)), frozenset(_MARK.findall(tgt))))
            if len(self._lengths) == max(BATCH_PAIRS, self._block) + 2 * _REACH:
                self._end_batch()

    def _end_batch(self) -> None:
        self._blocks.append(self._in_blocks())
        for waiting in (self._lengths, self._marks, self._is_new):
            del waiting[: -2 * _REACH]
        if sum(map(len, self._blocks)) == _MAX_BLOCKS:
            blocks = np.concatenate(self._blocks)
            self._blocks = [blocks.reshape(len(blocks) // 2, 2, *blocks.shape[1:]).sum(1)]
            self._block *= 2

    def _in_blocks(self) -> np.ndarray:
        """Return the count, sum and sum of squares of ``_evidence``, per block and offset."""
        evidence = self._evidence()
        evidence[~np.array(self._is_new[_REACH:-_REACH])] = 0.0
        counted = evidence.any(axis=1, keepdims=True) * np.ones_like(evidence)
        starts = np.arange(0, len(evidence), self._block)
        terms = np.stack([counted, evidence, evidence**2], axis=1)
        return np.add.reduceat(terms, starts)

    def _evidence(self) -> np.ndarray:
        """Return how much better target line n + offset fits than line n: float64 [n, offset]."""
        src, tgt = np.log(np.array(self._lengths) + _SMOOTHING).T
        src = src - np.median(src - tgt)
        inner = range(_REACH, len(src) - _REACH)
        fit = np.zeros((len(inner), len(_OFFSETS)))
        for column, offset in enumerate(_OFFSETS):
            off = src[inner.start : inner.stop] - tgt[inner.start + offset : inner.stop + offset]
            fit[:, column] = -np.abs(off).clip(max=_FARTHEST)
        for row, index in enumerate(inner):
            if marks := self._marks[index][0]:
                for column, offset in enumerate(_OFFSETS):
                    if shared := len(marks & self._marks[index + offset][1]):
                        fit[row, column] += _SHARED * min(shared, _MAX_SHARED)
        return fit - fit[:, :1]

    def find_shifts(self) -> list[Shift]:
        blocks = list(self._blocks)
        if len(self._lengths) > 2 * _REACH:
            blocks.append(self._in_blocks())
        if not any(block.any() for block in blocks):
            return []
        counts, sums, squares = np.moveaxis(np.concatenate(blocks), 1, 0)
        deviation = math.sqrt(squares[:, 1:].sum() / counts[:, 1:].sum())
        switch = _SWITCH * deviation * math.sqrt(self._block / _MIN_BLOCK)
        path = _best_path(sums, switch)
        bounds = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
        shifts = []
        for first, end in pairwise(bounds):
            column = path[first]
            lines, total, square = (
                float(terms[first:end, column].sum()) for terms in (counts, sums, squares)
            )
            is_significant = total > _SIGNIFICANT * math.sqrt(square)
            if column and is_significant and total > _STRONG * deviation * lines:
                start = _REACH + first * self._block if first else 0
                stop = self.pairs if end == len(path) else _REACH + end * self._block
                shifts.append(Shift(_OFFSETS[column], start, stop, 2 * self._block))
        return shifts


def _best_path(gains: np.ndarray, switch: float) -> np.ndarray:
    """Choose a column per row so that the sum of gains, less ``switch`` per change, is largest."""
    best = np.zeros(gains.shape[1])
    came_from = np.zeros(gains.shape, dtype=np.int8)
    stays = np.arange(gains.shape[1])
    for row, gain in enumerate(gains):
        top = int(best.argmax())
        is_switch = best[top] - switch > best
        came_from[row] = np.where(is_switch, top, stays)
        best = np.where(is_switch, best[top] - switch, best) + gain
    path = np.empty(len(gains), dtype=np.int8)
    column = int(best.argmax())
    for row in reversed(range(len(gains))):
        path[row] = column
        column = int(came_from[row, column])
    return path
