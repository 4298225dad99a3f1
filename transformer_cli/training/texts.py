"""The texts of an experiment: prepared from sources, audited, and how they are mixed."""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairProgress, ParallelText, concatenate, without_blank_pairs
from transformer_cli.data.kinds import Preparation
from transformer_cli.data.sources import (
    find_mixing,
    load_split,
    open_kind,
    open_training_parts,
    open_training_text,
)
from transformer_cli.data.store import EncodedStore, read_stats
from transformer_cli.data.token_arrays import Mix
from transformer_cli.data.training_text import StreamedText, TextCheck, TextStats
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import corpus_directory
from transformer_cli.text.protocol import ProgressBar, Tokenizers

OpenExecutor = Callable[[], AbstractContextManager[Executor]]
Warn = Callable[[str, str], None]
"""Shows a warning, given what it is about and the finding."""


@dataclass(frozen=True)
class Texts:
    """The texts to train and validate on; pairs with a blank side are dropped and counted."""

    train: StreamedText
    val: ParallelText
    blank_in_val: int

    @property
    def blank_in_train(self) -> int:
        """Pairs of the training split with a blank side."""
        return self.train.stats.blank


class TrainRequest(NamedTuple):
    """What to train, and where."""

    config: Config
    origins: Origins
    run: RunDirectory
    overwrite: bool  # whether to rename an earlier run, and begin anew
    allow_suspect_data: bool
    open_executor: OpenExecutor  # what its text is read and encoded by
    is_training: bool = True  # or else its data is prepared only


class Callbacks(NamedTuple):
    """Callbacks that tell the user what happens while data is prepared."""

    progress: ProgressBar
    warn: Warn
    pairs: PairProgress
    log: Callable[[str], object]


class ExperimentCheck(TextCheck, Protocol):
    """Checks the text of an experiment, the training text in the pass that reads it anyway.

    Any method may refuse it by a CorpusError.
    """

    notes: list[str]
    """Warnings, a line each, which begin with a split's name and a colon."""
    details: list[str]
    """Lines to be logged."""

    def check_scored(self) -> None:
        """Check the texts that are not trained on."""

    def conclude(self, text_sha256: str, is_known: bool) -> None:
        """Conclude from what was seen of the training text, which ``is_known`` from before."""


def audit_texts(
    request: TrainRequest, run: RunDirectory, report: Callbacks, executor: Executor
) -> Texts:
    """Read an experiment's texts, some of which ``run`` may keep, and have them checked.

    An extension checks them by an entry of the interface ``text_check``, whose ``load`` returns an
    ``ExperimentCheck`` given the data, the place of its text, the training texts by name,
    ``allow``, which is whether the user insists on them, and ``is_begun``, whether there are
    checkpoints.
    """
    data, place = request.config.data, corpus_directory(run)
    is_begun = not request.overwrite and bool(list_checkpoints(run.checkpoints))
    about = {"allow": request.allow_suspect_data, "is_begun": is_begun}
    parts = open_training_parts(data, place)
    entries = registry.entries("text_check").values()
    checks: list[ExperimentCheck] = [entry.load()(data, place, parts, **about) for entry in entries]
    notes = [open_kind(data).find_change(run.corpus)] if is_begun else []
    try:
        for check in checks:
            check.check_scored()
        known = read_stats(run.encoded)
        train = StreamedText.of(concatenate(*parts.values()), known, executor, checks)
        text_sha256 = train.stats.text_sha256
        for check in checks:
            check.conclude(text_sha256, known is not None and known.text_sha256 == text_sha256)
        return read_val(data, train, place)
    finally:
        notes += [note for check in checks for note in check.notes]
        for note in filter(None, notes):
            where, _, finding = note.partition(": ")
            report.warn(where, finding)
        for detail in (detail for check in checks for detail in check.details):
            report.log(detail)


def read_texts(data: DataConfig, known: TextStats | None = None) -> Texts:
    """Check the texts without an audit; training text as in ``known`` is not read."""
    return read_val(data, StreamedText.of(open_training_text(data), known))


def read_val(data: DataConfig, train: StreamedText, directory: Path | None = None) -> Texts:
    """Read the validation split, perhaps from ``directory``; return it with the training text."""
    val, blank_in_val = without_blank_pairs(load_split(data, "val", directory))
    for name, pairs in (("train", len(train)), ("val", len(val))):
        if not pairs:
            raise CorpusError(f"split '{name}': every pair has a blank side; nothing is left of it")
    return Texts(train, val, blank_in_val)


def prepare_text(
    data: DataConfig,
    run: RunDirectory,
    progress: PairProgress,
    log: Callable[[str], object],
    executor: Executor | None = None,
) -> None:
    """Write the text that the locked run keeps of its own, if the data's kind needs that."""
    is_begun = bool(list_checkpoints(run.checkpoints))
    clear = partial(run.remove_data, run.corpus)
    try:
        open_kind(data).prepare(Preparation(run.corpus, is_begun, clear, progress, log, executor))
    except OSError as error:
        raise RunError(f"{run.corpus}: cannot be written: {error.strerror or error}") from error


def has_prepared(data: DataConfig, run: RunDirectory) -> bool:
    """Return whether ``prepare_text`` would leave the run's text as it is."""
    return open_kind(data).has_prepared(run.corpus, bool(list_checkpoints(run.checkpoints)))


def find_mix(
    config: Config,
    place: Path | None,
    stats: TextStats,
    tokenizers: Tokenizers,
    store: EncodedStore,
) -> Mix | None:
    """Return what sets parts of the training text apart, if an extension has that to say."""
    found = (entry.load() for entry in find_mixing(config.data))
    mixes = (find(config, place, stats, tokenizers, store) for find in found)
    return next((mix for mix in mixes if mix is not None), None)
