"""Sentences of token ids in flat arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from transformer_cli.data.corpus import ParallelText
from transformer_cli.text.lines import ProgressBar
from transformer_cli.text.tokenizer import Tokenizers

T = TypeVar("T")


class SrcTgt(NamedTuple, Generic[T]):
    """A value of the source side and one of the target side."""

    src: T
    tgt: T


Lengths = SrcTgt[np.ndarray]
"""Tokens of each pair's source and target, without BOS and EOS."""


@dataclass(frozen=True)
class TokenArray:
    """Many sentences of token ids in one flat array.

    Attributes:
        ids: all tokens, sentence after sentence, without BOS and EOS.
        offsets: where each sentence starts, and at the end the number of tokens.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def from_sentences(cls, sentences: Iterable[list[int] | np.ndarray]) -> "TokenArray":
        """Build an array of ``sentences``, iterated over once."""
        ids: list[np.ndarray] = [np.asarray(sentence, dtype=np.int32) for sentence in sentences]
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        flat = np.concatenate(ids) if ids else np.zeros(0, dtype=np.int32)
        return cls.from_lengths(flat, lengths)

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> "TokenArray":
        """Build an array of sentences of these lengths from their concatenated ``ids``."""
        return cls(ids, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths))))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence, without BOS and EOS."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> "TokenArray":
        """Return the sentences at ``indices``, in that order."""
        starts = self.offsets[indices]
        lengths = self.offsets[indices + 1] - starts
        # Where each token comes from: its sentence's start, minus where that sentence goes to.
        shifts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return TokenArray.from_lengths(self.ids[shifts + np.arange(len(shifts))], lengths)

    def filter(self, mask: np.ndarray) -> "TokenArray":
        """Return the sentences for which ``mask`` is true."""
        if mask.all():
            return self
        lengths = self.lengths
        return TokenArray.from_lengths(self.ids[np.repeat(mask, lengths)], lengths[mask])

    @classmethod
    def concatenate(cls, parts: "Sequence[TokenArray]") -> "TokenArray":
        """Return the sentences of all ``parts``, in order."""
        ids = [np.zeros(0, dtype=np.int32), *(part.ids for part in parts)]
        lengths = [np.zeros(0, dtype=np.int64), *(part.lengths for part in parts)]
        return cls.from_lengths(np.concatenate(ids), np.concatenate(lengths))


@dataclass(frozen=True)
class EncodedText:
    """Parallel text as token ids: sentence n of one side translates sentence n of the other."""

    src: TokenArray
    tgt: TokenArray

    def __len__(self) -> int:
        return len(self.src)

    @property
    def lengths(self) -> Lengths:
        """Tokens of each pair's source and target."""
        return Lengths(self.src.lengths, self.tgt.lengths)

    def take(self, indices: np.ndarray) -> "EncodedText":
        """Return the pairs at ``indices``, in that order."""
        return EncodedText(self.src.take(indices), self.tgt.take(indices))

    @property
    def num_shards(self) -> int:
        """1: text in memory is a single shard."""
        return 1

    def shard(self, number: int) -> "EncodedText":
        """Return the text itself."""
        return self

    def shard_lengths(self, number: int) -> Lengths:
        """Return tokens of each pair's source and target."""
        return self.lengths

    def draws(self, number: int) -> None:
        """Return None: each pair is trained on once an epoch."""


def encode_text(text: ParallelText, tokenizers: Tokenizers, progress: ProgressBar) -> EncodedText:
    """Return both sides of ``text`` as token ids.

    Args:
        text: lines of both sides. A source's tag is put before its ids.
        tokenizers: one a side.
        progress: wraps the lines of the source, given a label, to draw a progress bar.

    Raises:
        UsageError: the tokenizers have no such tag.
    """
    src_rows, tgt_rows = [], []
    src_lines = progress(text.src, "encoding")
    for src, tgt, tag in zip(src_lines, text.tgt, text.tags or repeat(None), strict=False):
        src_ids, tgt_ids = tokenizers.encode_pair(src, tgt)
        if tag is not None:
            src_ids = [tokenizers.tag_id(tag), *src_ids]
        src_rows.append(np.array(src_ids, dtype=np.int32))
        tgt_rows.append(np.array(tgt_ids, dtype=np.int32))
    return EncodedText(TokenArray.from_sentences(src_rows), TokenArray.from_sentences(tgt_rows))
