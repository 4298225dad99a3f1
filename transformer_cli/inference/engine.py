"""What a search engine is to the rest of the program: token ids in, hypotheses out."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from transformer_cli.config.decoding_schema import DecodingConfig

MakeSampler = Callable[[Sequence[list[int]]], Callable[[Any, Any], tuple[Any, Any]]]
"""Returns what draws the next tokens for the sources of a batch: a ``Rank`` of search.py."""


class Constraint(Protocol):
    """Narrows what may be written, however it is searched; an extension gives it to a search."""

    def of_batch(self, places: Sequence[int], device: Any) -> Callable[[Any, Any, Any], object]:
        """Return what narrows the next tokens of a batch, given the places of its sources.

        It changes log-probabilities in place, a row for each hypothesis. The other arguments are
        the place of each row's source in the batch, and the tokens that each row has, from BOS on.
        """


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        bos_id: what every output starts from; not part of it.
        eos_id: what ends an output; not part of it.
        banned_ids: tokens that are never written.
        decoding: settings of the search; ``TextTranslator`` follows those of lengths and batches.
        constraints: narrow what is written besides; not every engine can apply them.
        sampler: draws each token, with a beam of 1; None: search.
        with_scores: whether log-probabilities are wanted; those of a greedy search may be 0 else.
    """

    bos_id: int
    eos_id: int
    banned_ids: tuple[int, ...]
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    constraints: tuple[Constraint, ...] = ()
    sampler: MakeSampler | None = None
    with_scores: bool = True


@dataclass(frozen=True)
class Hypothesis:
    """One translation: its ids, without BOS and EOS, and its log-probability.

    The log-probability is the sum over its tokens and, if it ended by itself, EOS.
    """

    ids: list[int]
    log_probability: float


class SearchEngine(Protocol):
    """Holds a model and searches for the likeliest outputs of it.

    ``TorchEngine`` can do all of this. Another one need neither apply constraints nor draw by a
    sampler: callers that need these ask ``choose_engine`` for torch.
    """

    @property
    def name(self) -> str:
        """The name by which it is chosen."""

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU computes."""

    @property
    def fingerprint(self) -> dict[str, str]:
        """What of its own decides the output, by name: settings, and the version of a library."""

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source as they end, whatever else is in its batch.

        Args:
            sources: token ids, each with its EOS, or empty: then there are no hypotheses.
            max_lengths: maximum tokens of each one's output.
            options: kind of search.
            batch_tokens: source tokens in a batch, times the beam.
            progress: called with the number of sentences just finished.
            should_stop: called before each batch; once it returns True, the rest has no hypotheses.

        Raises:
            UsageError: the engine cannot do what the options ask for.
        """


def describe_versions(*packages: str) -> dict[str, str]:
    """Return the version of each package that is installed, by name."""
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
