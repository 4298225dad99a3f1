"""What a tokenizer is to the rest of the program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Tokenizer(Protocol):
    """One side's way from text to ids and back. The specials' ids are text.vocabulary's."""

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four specials included."""

    def encode(self, line: str) -> list[int]:
        """A line's ids, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, on one line; BOS, EOS and PAD are passed over."""

    def token(self, number: int) -> str:
        """One id's token, as a person is shown it: '▁' stands for a space before it.

        All kinds of subwords are shown so, however their own files write them ('##en' of a
        WordPiece is 'en', its 'Hund' '▁Hund'). Whole words have no sign. Two ids may look alike.
        """

    def word_starts(self, ids: Sequence[int]) -> list[bool]:
        """Of each id, whether a word begins there: the first one, and those after a space.

        Where a tokenizer forgets spaces, as BERT's does, its own words count, marks among them.
        This, not the look of a token, tells which tokens make a word together. What is unknown
        begins one where it stands for a whole word; other specials do at the start only.
        """


@dataclass(frozen=True)
class Tokenizers:
    """Both sides' tokenizers; a joint one is the same object twice.

    Attributes:
        src: the source side's.
        tgt: the target side's.
        types: different words of the training text, source and target, before any were cut off;
            None for subwords.
    """

    src: Tokenizer
    tgt: Tokenizer
    types: tuple[int, int] | None = None


def marked_starts(tokens: Sequence[str]) -> list[bool]:
    """``Tokenizer.word_starts`` for tokens that have a '▁' where there is a space before them."""
    return [place == 0 or token.startswith("▁") for place, token in enumerate(tokens)]
