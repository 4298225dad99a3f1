"""Text as token ids, kept in flat arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from transformer_cli.data.corpus import ParallelText
from transformer_cli.text.lines import Progress
from transformer_cli.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class TokenStore:
    """Many sentences of token ids in one flat array.

    Attributes:
        ids: all tokens, sentence after sentence, without begin and end marks.
        offsets: where each sentence starts, and at the end the number of tokens.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, sentences: Iterable[list[int] | np.ndarray]) -> "TokenStore":
        """Store ``sentences``, read once."""
        ids: list[np.ndarray] = [np.asarray(sentence, dtype=np.int32) for sentence in sentences]
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        flat = np.concatenate(ids) if ids else np.zeros(0, dtype=np.int32)
        return cls.from_lengths(flat, lengths)

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> "TokenStore":
        """Sentences of these lengths, whose tokens ``ids`` are, one after another."""
        return cls(ids, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(lengths))))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sentence, without begin and end marks."""
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> "TokenStore":
        """The sentences with the numbers ``indices``, in that order."""
        return TokenStore.of(self[index] for index in indices)

    def where(self, kept: np.ndarray) -> "TokenStore":
        """The sentences for which ``kept`` is true."""
        if kept.all():
            return self
        lengths = self.lengths
        return TokenStore.from_lengths(self.ids[np.repeat(kept, lengths)], lengths[kept])

    @classmethod
    def joined(cls, parts: "Sequence[TokenStore]") -> "TokenStore":
        """The sentences of ``parts``, in a row."""
        ids = [np.zeros(0, dtype=np.int32), *(part.ids for part in parts)]
        lengths = [np.zeros(0, dtype=np.int64), *(part.lengths for part in parts)]
        return cls.from_lengths(np.concatenate(ids), np.concatenate(lengths))


@dataclass(frozen=True)
class EncodedText:
    """Parallel text as token ids: sentence n of one side translates sentence n of the other."""

    src: TokenStore
    tgt: TokenStore

    def __len__(self) -> int:
        return len(self.src)

    @property
    def windows(self) -> int:
        """One: text that is in memory anyway is a single window of itself."""
        return 1

    def window(self, number: int) -> "EncodedText":
        """The text itself."""
        return self

    def take(self, indices: np.ndarray) -> "EncodedText":
        """The pairs with the numbers ``indices``, in that order."""
        return EncodedText(self.src.take(indices), self.tgt.take(indices))

    def window_lengths(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of source and target of each pair."""
        return self.src.lengths, self.tgt.lengths


def encode_text(
    text: ParallelText,
    tokenizers: Tokenizers,
    progress: Progress,
) -> EncodedText:
    """Tokenise both sides of ``text``.

    Args:
        text: lines of both sides.
        tokenizers: one a side.
        progress: wraps the lines of a side, given what is done with them, to draw a bar.
    """
    src_lines = progress(text.src, "encoding source")
    tgt_lines = progress(text.tgt, "encoding target")
    return EncodedText(
        TokenStore.of(map(tokenizers.src.encode, src_lines)),
        TokenStore.of(map(tokenizers.tgt.encode, tgt_lines)),
    )
