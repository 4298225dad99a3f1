"""Mistakes in the files that a configuration names: one file named twice, sides swapped."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from transformer_cli.audit.line_checks import LineChecks
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.streamed import PairSource
from transformer_cli.text.scripts import scripts_of

Sources = Mapping[str, PairSource]
_LOOKED_AT = 1000
"""Pairs of a split whose script is looked at."""


def same_files(training: Sources, scored: Sources, one_language: bool) -> Iterator[str]:
    """Yield a message for each file that is used for two things that exclude each other.

    Args:
        training: what is trained on, by name.
        scored: what is validated or evaluated on.
        one_language: whether a source may be its own translation.
    """
    files = {**training, **scored}
    for name, source in files.items():
        if isinstance(source, ParallelFiles) and not one_language and _is_same(*_sides(source)):
            yield f"{name}: {source.src} is its source and its target"
    for name, source in scored.items():
        for path in _sides(source):
            trained = (
                part for part, text in training.items() for each in _sides(text)
                if _is_same(path, each)
            )  # fmt: skip
            if part := next(trained, None):
                yield f"{name}: {path} is trained on, as part of {part}"
                break


def _sides(source: PairSource) -> tuple[Path, ...]:
    return (source.src, source.tgt) if isinstance(source, ParallelFiles) else ()


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:  # what is not there is found out when it is read
        return False


def are_swapped(source: PairSource, src_lang: str, tgt_lang: str) -> bool:
    """Return whether the sides are swapped, judged by their scripts.

    Raises:
        CorpusError: the first lines cannot be read.
    """
    scripts = (scripts_of(src_lang), scripts_of(tgt_lang))
    if None in scripts or not frozenset.isdisjoint(*scripts):  # type: ignore[arg-type]
        return False
    checks = [[LineChecks(each, _lacks_nothing) for each in scripts] for _ in scripts]
    count = 0
    for count, pair in enumerate(islice(source.pairs(), _LOOKED_AT), start=1):
        for line, both in zip(pair, checks, strict=True):
            for check in both:
                check.check_line(count, line)
    foreign = [[2 * check.foreign.count > count for check in both] for both in checks]
    return foreign == [[True, False], [False, True]]


def _lacks_nothing(character: str) -> bool:
    return False
