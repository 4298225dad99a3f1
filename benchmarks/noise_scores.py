"""Precision and recall of each filter on known noise."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from benchmarks.rounds import markdown_table
from transformer_cli.extensions.checks.rules import FILTER_NAMES, FilterSettings
from transformer_cli.extensions.corpora.deciding import Filtering, decide, judge

DEFAULTS: tuple[str, ...] = ("blank", "duplicates")
MILD: tuple[str, ...] = tuple(name for name in FILTER_NAMES if name != "language_short")


def score_filters(pairs: Sequence[tuple[str, str]], kinds: Sequence[str | None]) -> str:
    """Return tables in Markdown.

    Args:
        pairs: German and English.
        kinds: the kind of noise of each; None: none.
    """
    sizes = Counter(kind for kind in kinds if kind is not None)
    trials: dict[str, Collection[str]] = {f"`{name}`": [name] for name in FILTER_NAMES}
    trials["the defaults"] = DEFAULTS
    trials["all but `language_short`"] = MILD
    trials["all"] = FILTER_NAMES
    found = {
        name: Counter(np.array(kinds, dtype=object)[_taken(pairs, filters)].tolist())
        for name, filters in trials.items()
    }
    rows = [_row(name, taken, sizes) for name, taken in found.items()]
    head = ("filter", "takes", "precision", "recall", "of which kind it finds")
    best = found["all but `language_short`"]
    by_kind = [
        (kind, f"{size:,}", f"{best[kind] / size:.1%}", _finders(kind, found))
        for kind, size in sizes.most_common()
    ]
    return "\n\n".join(
        (
            markdown_table(head, rows),
            markdown_table(("noise", "pairs", "recall", "found by"), by_kind),
        )
    )


def _taken(pairs: Sequence[tuple[str, str]], names: Collection[str]) -> np.ndarray:
    active = frozenset({"blank", *names})
    settings = FilterSettings(kind="corpus", src_lang="de", tgt_lang="en")
    filtering = Filtering(tuple(names), settings, (active,), with_sides=False)
    return decide(filtering, judge(filtering, 0, pairs), np.zeros(len(pairs), np.int32)) >= 0


def _row(name: str, taken: Counter[str | None], sizes: Counter[str]) -> tuple[str, ...]:
    count = taken.total()
    noise = count - taken[None]
    kinds = ", ".join(
        f"{kind} {taken[kind] / size:.0%}"
        for kind, size in sizes.items()
        if 200 * taken[kind] > size
    )
    precision = f"{noise / count:.1%}" if count else "–"
    return name, f"{count:,}", precision, f"{noise / sizes.total():.1%}", kinds or "–"


def _finders(kind: str, found: dict[str, Counter[str | None]]) -> str:
    single = {name: taken[kind] for name, taken in found.items() if name.startswith("`")}
    return ", ".join(
        name for name, count in sorted(single.items(), key=lambda each: -each[1]) if count
    )
