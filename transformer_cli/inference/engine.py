"""What a search engine is to the rest of the program: token ids in, hypotheses out."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from transformer_cli.inference.hypotheses import Hypothesis, SearchOptions


def ignore(what: object) -> None:
    """Ignore a report, of progress say."""


def never() -> bool:
    """Return False: do not stop."""
    return False


class SearchEngine(Protocol):
    """Holds a model and searches for the likeliest outputs of it.

    Attributes:
        supports_prefixes: whether outputs can be forced to begin with given tokens.
        supports_alignments: whether ``align`` has an answer.
        supports_sampling: whether outputs can be drawn from the distribution.
    """

    supports_prefixes: ClassVar[bool]
    supports_alignments: ClassVar[bool]
    supports_sampling: ClassVar[bool]

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
            sources: token ids, each with its EOS, or empty: then there are no hypotheses.
            prefixes: forced on each one's outputs; empty unless ``supports_prefixes``.
            max_lengths: most tokens of each one's output.
            options: kind of search.
            batch_tokens: source tokens in a batch, times the beam.
            progress: called with the number of sentences just finished.
            should_stop: called before each batch; once it returns True, the rest has no hypotheses.
        """

    def align(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], batch_tokens: int
    ) -> list[list[int]]:
        """Return, for each token of each target, the place of the source token it is aligned to.

        Args:
            sources: token ids, each with its EOS, which nothing is aligned to.
            targets: translations of them, without EOS.
            batch_tokens: most tokens of a side of a batch, padding included.
        """
