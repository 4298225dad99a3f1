"""What checks know about a kind of data besides its splits.

An extension that adds a kind can provide a subclass of ``CheckedKind`` under the kind's name::

    provides = {"checked kind": {"corpus": {"load": "checked_corpus:CheckedCorpus"}}}
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transformer_cli.base import registry
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import PairSource

Sources = Mapping[str, PairSource]


class FilterReport(NamedTuple):
    """What filters would reject, for the end of ``check``'s report."""

    facts: Sequence[Mapping[str, Any]]
    """For programs."""
    lines: Sequence[str]
    """For people."""
    warning: str | None


class CheckedKind:
    """A kind whose splits are the user's own text files."""

    has_few_words = False
    """Whether all pairs are near one another, as they are made of a few words."""

    def __init__(self, data: DataSection) -> None:
        self.data: Any = data

    def files(self) -> tuple[Sources, Sources]:
        """Return the text that splits are made from, by name: to train on, and to score."""
        return {}, {}

    def advise_near(self, split: str) -> str:
        """Return what to do about near-copies of a split's pairs; it begins with '; '."""
        return ""

    def try_filters(self) -> FilterReport | None:
        """Return what filters would do to the text; None: the kind has none."""
        return None


class CheckedToy(CheckedKind):
    """The toy captions."""

    has_few_words = True


def find_checked(data: DataSection) -> CheckedKind:
    """Return what checks know about the kind of ``data``."""
    if entry := registry.find("checked kind", data.kind):
        kind: type[CheckedKind] = entry.load()
        return kind(data)
    return (CheckedToy if data.kind == "toy" else CheckedKind)(data)
