"""The texts that runs are compared on."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from transformer_cli.config.data_schema import DataConfig
from transformer_cli.data.corpus import ParallelText
from transformer_cli.data.sources import (
    check_has_splits,
    default_split,
    load_split,
    split_names,
)
from transformer_cli.errors import CorpusError, RunError, UsageError
from transformer_cli.evaluation.compared_runs import ComparedRun
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import corpus_directory


class ComparedText(NamedTuple):
    """A text to compare runs on."""

    split: str
    """As it was named: a split of all runs, or RUN:NAME."""
    text: ParallelText


def load_texts(runs: Sequence[ComparedRun], splits: Sequence[str]) -> list[ComparedText]:
    """Return the texts to compare on.

    Each split is one of all runs, or RUN:NAME, a split of any run of the same languages. None of
    them: the first test split of the first run that has text.
    """
    return [
        _load_text_of_run(runs, split)
        if ":" in split and not any(_has_split(run, split) for run in runs)
        else ComparedText(split, load_common_text(runs, split))
        for split in dict.fromkeys(splits or [_default_split(runs)])
    ]


def _default_split(runs: Sequence[ComparedRun]) -> str:
    """Return a split of all runs, or RUN:NAME if some are imported models, without text."""
    first = next((run for run in runs if split_names(run.config.data)), runs[0])
    check_has_splits(
        first.config.data, first.directory.path, "name text of another run with --split RUN:NAME"
    )
    name = default_split(first.config.data)
    have_text = all(split_names(run.config.data) for run in runs)
    return name if have_text else f"{first.directory.path}:{name}"


def split_runs(splits: Sequence[str]) -> list[Path]:
    """Return the runs that splits of the form RUN:NAME may name."""
    return [path for split in splits for path, _ in _cut_at_colons(split)]


def _cut_at_colons(split: str) -> list[tuple[Path, str]]:
    """Return RUN and NAME for each colon that may be between them, the last one first."""
    # Paths may have colons, as those of Windows do, and names of test splits too.
    colons = [place for place in range(1, len(split) - 1) if split[place] == ":"]
    return [(Path(split[:place]), split[place + 1 :]) for place in reversed(colons)]


def _is_split_of_run(path: Path, name: str) -> bool:
    try:
        return name in split_names(RunDirectory(path).load_config().data)
    except RunError:  # no run directory
        return False


def _has_split(run: ComparedRun, name: str) -> bool:
    return name in split_names(run.config.data)


def _load_text_of_run(runs: Sequence[ComparedRun], split: str) -> ComparedText:
    candidates = _cut_at_colons(split)
    if not candidates:
        raise UsageError(f"--split {split}: expected RUN:NAME, a run and one of its splits")
    path, name = next(
        (candidate for candidate in candidates if _is_split_of_run(*candidate)), candidates[0]
    )
    owner = RunDirectory(path)
    data = owner.load_config().data
    for run in runs:
        languages = [f"{text.src_lang}-{text.tgt_lang}" for text in (data, run.config.data)]
        if languages[0] != languages[1]:
            raise UsageError(
                f"--split {split}: its languages are {languages[0]}, but "
                f"{run.directory.path} translates {languages[1]}"
            )
    return ComparedText(split, _load_text(owner, data, name))


def load_common_text(runs: Sequence[ComparedRun], name: str) -> ParallelText:
    """Return the text of a split, which is the same in all runs.

    Raises:
        CorpusError: a run has no such split, or its text is missing or damaged.
        UsageError: the split is not the same text, or not of the same languages, in two runs.
    """
    first, *others = runs
    lacking = [run for run in runs if not _has_split(run, name)]
    if 0 < len(lacking) < len(runs):
        owner = next(run for run in runs if _has_split(run, name))
        raise CorpusError(
            f"{lacking[0].directory.path}: data.kind {lacking[0].config.data.kind} has no split "
            f"'{name}'; --split {owner.directory.path}:{name} compares all runs on it"
        )
    text = _load_text(first.directory, first.config.data, name)
    for other in others:
        other_text = _load_text(other.directory, other.config.data, name)
        if difference := _difference(first, text, other, other_text):
            raise UsageError(
                f"{first.directory.path} and {other.directory.path}: split '{name}' is not the "
                f"same in both ({difference}); scores compare on the same text only: --split "
                "RUN:NAME takes one run's for all"
            )
    return text


def _load_text(run: RunDirectory, data: DataConfig, split: str) -> ParallelText:
    with _name_run(run):
        return load_split(data, split, corpus_directory(run))


def _difference(
    first: ComparedRun, text: ParallelText, other: ComparedRun, other_text: ParallelText
) -> str | None:
    """Return what differs between two runs' texts, if anything does."""
    languages = [
        f"{data.src_lang}-{data.tgt_lang}" for data in (first.config.data, other.config.data)
    ]
    if languages[0] != languages[1]:
        return f"languages {languages[0]} and {languages[1]}"
    if len(text) != len(other_text):
        return f"{len(text):,} and {len(other_text):,} sentences"
    for line, (pair, other_pair) in enumerate(
        zip(text.pairs(), other_text.pairs(), strict=True), start=1
    ):
        if pair != other_pair:
            return f"line {line} is another"
    return None


@contextmanager
def _name_run(run: RunDirectory) -> Iterator[None]:
    """Put the run before errors that name a split or a line, which the other runs have too."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"{run.path}: {error}") from error
