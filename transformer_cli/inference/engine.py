"""What a search engine is to the rest of the program: token ids in, hypotheses out."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from transformer_cli.inference.search import Hypothesis, SearchOptions


def ignore(what: object) -> None:
    """Take no notice, of progress say."""


def never() -> bool:
    """Return False: there is no need to stop."""
    return False


class SearchEngine(Protocol):
    """Holds a model and searches for the likeliest outputs of it.

    Attributes:
        supports_prefixes: whether outputs can be forced to begin with given tokens.
        supports_alignments: whether ``align`` has an answer.
    """

    supports_prefixes: ClassVar[bool]
    supports_alignments: ClassVar[bool]

    @property
    def fingerprint(self) -> dict[str, str]:
        """Settings of its own that decide the output, by name."""

    def search(
        self,
        sources: Sequence[list[int]],
        prefixes: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, best first, whatever else is in its batch.

        Args:
            sources: token ids, each with its end mark, or empty: then nothing is found.
            prefixes: what each one's outputs begin with; empty unless ``supports_prefixes``.
            max_lengths: most tokens of each one's output.
            options: kind of search.
            batch_tokens: source tokens in a batch, times the beam.
            progress: told how many sentences were finished each time some are.
            should_stop: asked before each batch; once it is true, nothing is found for the rest.
        """

    def align(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
    ) -> list[list[int]]:
        """Return, for each token of each target, the place of the source token it is aligned to.

        Args:
            sources: token ids, each with its end mark, which nothing is aligned to.
            targets: translations of them, without marks.
            batch_tokens: most tokens of a side of a batch, padding included.
        """
