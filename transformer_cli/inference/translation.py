"""A line to translate, its translations, and how extensions revise these."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from transformer_cli.inference.engine import Hypothesis
from transformer_cli.text.protocol import EncodedSource

Pieces = tuple[Hypothesis, ...]
"""One translation of a line as ids: a hypothesis for each of its pieces."""


@dataclass(frozen=True)
class EncodedLine:
    """A line to be translated, as ids.

    Attributes:
        text: the line.
        source: its ids, and what the tokenizers remember of it.
        pieces: its ids, cut where it is too long; none if it is blank. Each begins with the ids of
            ``EncodedSource.start``, and ends with EOS.
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
        text: on one line.
        log_probability: the sum over the tokens of all pieces.
        score: what translations of a line are ranked by: that, divided by the length penalty; of
            several pieces, the sum of theirs, so that the best of each make up the best.
        alignment: which word of the line goes with which of ``text``, counted from 0, words being
            what white space separates; empty unless an extension aligns them.
        tokens: number of its tokens, the end of each piece included.
        remark: what a reviser says of it; see ``Reviser``.
        pieces: what was found, as ids; empty for a line that is its own translation.
    """

    text: str
    log_probability: float = 0.0
    score: float = 0.0
    alignment: tuple[tuple[int, int], ...] = ()
    tokens: int = 0
    remark: str = ""
    pieces: Pieces = field(default=(), repr=False, compare=False)


def ignore(_: object) -> None:
    """Ignore a report, of progress say."""


def never() -> bool:
    """Return False: do not stop."""
    return False


class Watcher(NamedTuple):
    """Callbacks that follow the progress of translations."""

    progress: Callable[[int], object] = ignore
    """Called with the number of lines just finished."""
    on_long_line: Callable[[str], object] = ignore
    """Called with a message about each line that is translated in pieces."""
    should_stop: Callable[[], bool] = never
    """Called before each batch; once it returns True, the rest is left empty."""


NOBODY = Watcher()


class Notes:
    """What there is to say about translations, line by line and in sum; here, nothing.

    ``translate`` prints the summary; ``evaluate`` reports the facts, or rows and remarks.
    ``translate`` leaves them as a context manager once all translations are written, or it failed.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Keep what is written down, without an exception alone."""

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        """Look at a line and its translations, best first; return what to say of them at once."""
        return ()

    def summary(self, lines: int) -> Iterator[str]:
        """Yield what to say about all of so many lines."""
        yield from ()

    @property
    def facts(self) -> dict[str, Any]:
        """What was counted or scored, for a report as JSON."""
        return {}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield rows for the table of scores: a name, a value, and what it is."""
        yield from ()

    def remarks(self) -> Iterator[str]:
        """Yield lines that follow that table."""
        yield from ()


class Reviser:
    """Revises what a search has found; a ``TextTranslator`` has those that extensions give it.

    Tokenizers may bring some, and the options of a command (``ExtraOptions.prepare``).
    """

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Watcher,
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first, some of them replaced.

        Args:
            translator: the ``TextTranslator`` that found them, and can search and write others.
            lines: what is translated.
            found: at least one translation of each line.
            n_best: see ``TextTranslator.translate_lines``.
            watcher: its ``progress`` has counted the lines already.
        """
        return found

    def notes(self) -> Notes:
        """Return what takes notes of a text's translations."""
        return Notes()
