"""A line to translate, its translations, and how extensions revise them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from transformer_cli.inference.engine import Hypothesis
from transformer_cli.text.protocol import EncodedSource

Pieces = tuple[Hypothesis, ...]
"""One translation of a line, as ids: a hypothesis for each of ``EncodedLine.pieces``."""


@dataclass(frozen=True)
class EncodedLine:
    """A line to translate, as ids.

    Attributes:
        text: the line.
        source: the ids of the line, and other data that the tokenizers need.
        pieces: the ids of the line's pieces: several if it is too long, none if it is blank. Each
            piece starts with the ids of ``EncodedSource.start`` and ends with EOS.
        is_copied: whether the line is its own translation; then there are no pieces.
    """

    text: str
    source: EncodedSource
    pieces: list[list[int]]
    is_copied: bool = False


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: the translation, on one line.
        log_probability: the sum over the tokens of all pieces.
        score: ranks the translations of a line: the log-probability divided by the length penalty.
            Pieces have their own scores, and their sum is the score, so that the best pieces make
            the best translation.
        alignment: pairs (word of the line, word of ``text``), numbered from 0. White space
            separates words. Empty unless an extension aligns the words.
        tokens: number of tokens, including one EOS for each piece.
        remark: why a ``Reviser`` doubts or replaced the translation; empty if it did neither.
        pieces: the hypotheses of the pieces; empty for a line that is its own translation.
    """

    text: str
    log_probability: float = 0.0
    score: float = 0.0
    alignment: tuple[tuple[int, int], ...] = ()
    tokens: int = 0
    remark: str = ""
    pieces: Pieces = field(default=(), repr=False, compare=False)


class Notes:
    """A collector of findings about translations, such as lost terms; extensions add subclasses.

    ``translate`` prints ``summary``; ``evaluate`` reports ``facts``, or ``rows`` and ``remarks``.
    ``translate`` exits this context manager after the last translation or an error.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Save the findings if a subclass does so, but only if there was no exception."""

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Check a line and its translations, best first; return messages to print at once."""
        return ()

    def summary(self, lines: int) -> Iterator[str]:
        """Yield messages about all translations; ``lines`` is the number of lines."""
        yield from ()

    @property
    def facts(self) -> dict[str, Any]:
        """Counts and scores for the JSON report of ``evaluate``."""
        return {}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield rows for the table of scores: a name, a value, and an explanation."""
        yield from ()

    def remarks(self) -> Iterator[str]:
        """Yield lines to print after the table of scores."""
        yield from ()


class Reviser:
    """An object that changes the translations found by a search; extensions define subclasses.

    A ``TextTranslator`` gets revisers from tokenizers and from options (``ExtraOptions.prepare``).
    """

    comes_last: ClassVar[bool] = False
    """Whether to call this reviser after those for which this is False."""

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Any,
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first, with replacements for some of them.

        Args:
            translator: the ``TextTranslator`` that found them; it can find and write others.
            lines: the lines to translate.
            found: at least one translation of each line.
            n_best: see ``TextTranslator.translate_lines``.
            watcher: a ``Watcher`` whose ``progress`` has already counted the lines.
        """
        return found

    def notes(self) -> Notes | None:
        """Return new ``Notes`` for the translations of one text, or None to take no notes."""
        return None
