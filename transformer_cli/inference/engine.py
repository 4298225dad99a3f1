"""The interface of search engines, which get token ids and return hypotheses."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from transformer_cli.config.decoding_schema import DecodingConfig

MakeSampler = Callable[[Sequence[list[int]]], Callable[[Any, Any], tuple[Any, Any]]]
"""A function (ids of a batch's sources) -> a function ``Rank`` (search.py) that draws tokens."""


class Constraint(Protocol):
    """A limit on the tokens that a search may write; extensions add constraints to searches."""

    def of_batch(self, places: Sequence[int], device: Any) -> Callable[[Any, Any, Any], object]:
        """Return a function that limits next tokens for a batch of the sources with these indices.

        The function gets the log-probabilities of next tokens, with a row for each hypothesis, and
        changes them in place. The other arguments give, for each row, the index of the source in
        the batch and the tokens so far, starting with BOS.
        """


@dataclass(frozen=True)
class SearchOptions:
    """What a search needs to know besides the sources.

    Attributes:
        bos_id: the token before every output; not part of it.
        eos_id: the token that ends an output; not part of it.
        banned_ids: tokens that are never written.
        decoding: search settings; ``TextTranslator`` applies the length and batch settings.
        constraints: limits on the tokens that are written; not every engine supports them.
        sampler: draws each token, if the beam size is 1; if None, the likeliest is chosen.
        with_scores: whether log-probabilities are needed; if not, greedy search may return zeros.
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

    The log-probability is summed over its tokens, and over EOS unless it ended at a length limit.
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
        """The name by which users choose the engine."""

    @property
    def is_on_gpu(self) -> bool:
        """Whether the engine computes on a GPU."""

    @property
    def fingerprint(self) -> dict[str, str]:
        """The engine's settings and library versions that affect the output, keyed by name."""

    def search(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        options: SearchOptions,
        batch_tokens: int,
        progress: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source, in the order in which they ended.

        The result does not depend on the other sources in the batch.

        Args:
            sources: token ids of each source, EOS included; an empty source gets no hypotheses.
            max_lengths: maximum number of output tokens for each source.
            options: how to search.
            batch_tokens: maximum per batch of source tokens multiplied by the beam size.
            progress: called with the number of sentences just finished.
            should_stop: called before each batch; once True, the sources left get no hypotheses.

        Raises:
            UsageError: the engine does not support the options.
        """


def repeats_itself(ids: Sequence[int], size: int) -> bool:
    """Return whether ids have the same sequence of ``size`` tokens twice."""
    sequences = [*zip(*(ids[start:] for start in range(size)), strict=False)]
    return len(set(sequences)) < len(sequences)


def describe_versions(*packages: str) -> dict[str, str]:
    """Return the versions of ``packages``, keyed by name, without those not installed."""
    from importlib.metadata import PackageNotFoundError, version  # the import takes 10 ms

    versions = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
