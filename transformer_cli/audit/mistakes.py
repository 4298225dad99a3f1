"""Mistakes in the files that a configuration names: one file named twice, sides swapped."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from transformer_cli.audit.line_checks import LineChecks
from transformer_cli.config.data_schema import CorpusData, DataConfig, SourceConfig
from transformer_cli.data.corpus import PairSource, ParallelFiles
from transformer_cli.data.prepared import given_sources
from transformer_cli.text.scripts import scripts_of

Sources = Mapping[str, PairSource]
_LOOKED_AT = 1000
"""Pairs of a split whose script is looked at."""


def configured_files(data: DataConfig) -> tuple[Sources, Sources]:
    """Return the aligned text files that a corpus is made of: what is trained on, and scored.

    Of other kinds there are none, as their splits are the files.
    """
    if not isinstance(data, CorpusData):
        return {}, {}
    sources = {f"data.sources[{number}]": source for number, source in enumerate(data.sources)}
    return _text_files(sources), _text_files(given_sources(data))


def _text_files(sources: Mapping[str, SourceConfig]) -> Sources:
    return {
        name: ParallelFiles(source.src, source.tgt)
        for name, source in sources.items()
        if source.src is not None and source.tgt is not None
    }


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


def swapped_sides(sources: Sources, src_lang: str, tgt_lang: str) -> Iterator[str]:
    """Yield a message for each text whose sides are swapped, judged by their scripts.

    Raises:
        CorpusError: the first lines of a text cannot be read.
    """
    scripts = (scripts_of(src_lang), scripts_of(tgt_lang))
    if None in scripts or not frozenset.isdisjoint(*scripts):  # type: ignore[arg-type]
        return
    for name, source in sources.items():
        if _are_swapped(source, scripts):
            yield (
                f"{name}: its source is in the script of '{tgt_lang}' and its target in that of "
                f"'{src_lang}', so they are swapped"
            )


def _are_swapped(source: PairSource, scripts: Sequence[frozenset[str] | None]) -> bool:
    checks = [[LineChecks(each, _lacks_nothing) for each in scripts] for _ in scripts]
    count = 0
    for count, pair in enumerate(islice(source.pairs(), _LOOKED_AT), start=1):
        for line, both in zip(pair, checks, strict=True):
            for check in both:
                check.check_line(count, line)
    foreign = [[2 * check.foreign.count > count for check in both] for both in checks]
    return foreign == [[True, False], [False, True]]


def all_copied(name: str) -> str:
    """Return the message for a text of which each target is its source."""
    return f"{name}: each target is its source, so one file is both"


def trained_text(name: str) -> str:
    """Return the message for a text to score that is the training text."""
    return f"{name}: its text is the training text"


def _lacks_nothing(character: str) -> bool:
    return False
