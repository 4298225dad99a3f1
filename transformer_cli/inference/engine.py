"""The interface of search engines: they get token ids and return hypotheses."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from transformer_cli.config.decoding_schema import DecodingConfig

MakeSampler = Callable[[Sequence[list[int]]], Callable[[Any, Any], tuple[Any, Any]]]
"""Returns a function that draws the next tokens for a batch of sources: a ``Rank`` of search.py."""


class Constraint(Protocol):
    """A limit on what any search may write; extensions add constraints to a search."""

    def of_batch(self, places: Sequence[int], device: Any) -> Callable[[Any, Any, Any], object]:
        """Return a function that limits the next tokens in a batch of the sources at ``places``.

        Its first argument is the log-probabilities, with a row for each hypothesis; it changes them
        in place. The others are the place of each row's source in the batch, and the tokens of each
        row so far, from BOS on.
        """


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        bos_id: the token before every output; not part of it.
        eos_id: the token that ends an output; not part of it.
        banned_ids: tokens that are never written.
        decoding: search settings; ``TextTranslator`` applies those for lengths and batches.
        constraints: further limits on what is written; not every engine supports them.
        sampler: draws each token, with a beam of 1; None: search.
        with_scores: whether log-probabilities are needed; otherwise greedy search may return 0.
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

    The log-probability is the sum over its tokens, and EOS if it did not end at a length limit.
    """

    ids: list[int]
    log_probability: float


class SearchEngine(Protocol):
    """An engine that holds a model and searches for its likeliest outputs.

    ``TorchEngine`` supports everything. Other engines need not support constraints or samplers;
    callers that need these request the torch engine from ``choose_engine``.
    """

    @property
    def name(self) -> str:
        """The name that users choose it by."""

    @property
    def is_on_gpu(self) -> bool:
        """Whether it computes on a GPU."""

    @property
    def fingerprint(self) -> dict[str, str]:
        """The engine's settings and library versions that affect the output, by name."""

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source in the order in which they end.

        The result does not depend on the other sources in the batch.

        Args:
            sources: token ids of each source with EOS; an empty source gets no hypotheses.
            max_lengths: maximum number of output tokens for each source.
            options: how to search.
            batch_tokens: maximum of source tokens x beam size in a batch.
            progress: called with the number of sentences just finished.
            should_stop: called before each batch; once it returns True, the rest get no hypotheses.

        Raises:
            UsageError: the engine does not support the options.
        """


def describe_versions(*packages: str) -> dict[str, str]:
    """Return the version of each package that is installed, by name."""
    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
