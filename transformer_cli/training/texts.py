"""The texts of an experiment: prepared from sources, audited, and how they are mixed."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.config.data_schema import (
    MAX_WEIGHT,
    CorpusData,
    DataConfig,
    Replay,
    added_sources,
    find_replay,
)
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairProgress, ParallelText, without_blank_pairs
from transformer_cli.data.sources import load_split, open_training_text
from transformer_cli.data.store import EncodedStore, read_stats
from transformer_cli.data.training_text import StreamedText, TextStats
from transformer_cli.extensions.checks.text_audit import TextAudit
from transformer_cli.extensions.corpora import prepared
from transformer_cli.extensions.corpora.mixing import TrainingMix
from transformer_cli.extensions.corpora.preparing import has_changed, is_prepared, prepare_corpus
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


def audit_texts(
    request: TrainRequest, run: RunDirectory, report: Callbacks, executor: Executor
) -> Texts:
    """Check and audit an experiment's texts, which are in ``run`` if they are of sources."""
    data = request.config.data
    is_begun = not request.overwrite and bool(list_checkpoints(run.checkpoints))
    audit = TextAudit(data, request.allow_suspect_data, is_begun, corpus_directory(run))
    if is_begun and isinstance(data, CorpusData) and has_changed(data, run.corpus):
        report.warn(
            "data.sources",
            "the text has changed since the run began, and the run goes on with what it was; "
            "for the new text, choose another --run-dir, or start anew with --overwrite",
        )
    try:
        audit.look_at_scored()
        train = audit.read_training_text(read_stats(run.encoded), executor)
        return read_val(data, train, audit.earlier)
    finally:
        for note in audit.notes:
            where, _, finding = note.partition(": ")
            report.warn(where, finding)
        for each in audit.near:
            report.log(f"{each.name}: {each.describe()}")


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


def prepare_sources(
    data: DataConfig,
    run: RunDirectory,
    progress: PairProgress,
    log: Callable[[str], object],
    executor: Executor | None = None,
) -> None:
    """Read, filter and split the sources, if the data has any, into the locked run.

    A run that has checkpoints goes on with its own corpus, whatever became of the sources.
    """
    if not isinstance(data, CorpusData):
        return
    try:
        if has_sources(data, run):
            is_begun = bool(list_checkpoints(run.checkpoints))
            for split in prepared.update_given_splits(data, run.corpus, is_begun):
                log(_describe_split(split))
            return
        run.remove_data(run.corpus)
        record = prepare_corpus(data, run.corpus, progress, executor)
    except OSError as error:
        raise RunError(f"{run.corpus}: cannot be written: {error.strerror or error}") from error
    for line in describe_record(record):
        log(line)


def has_sources(data: DataConfig, run: RunDirectory) -> bool:
    """Return whether the run's corpus is of the sources as they are, or is trained on already."""
    record = prepared.read_corpus_record(run.corpus)
    if not isinstance(data, CorpusData):
        return False
    if record is None:
        if run.corpus.is_dir() and list_checkpoints(run.checkpoints):
            raise RunError(
                f"{run.corpus / prepared.RECORD}: missing, damaged or of another version, and what "
                "it tells of the run's text is needed; restore it, or start anew with --overwrite"
            )
        return False
    damage = prepared.find_damage(run.corpus, record, record.drawn)
    if not list_checkpoints(run.checkpoints):
        return damage is None and is_prepared(data, run.corpus)
    if damage is None:
        return True
    with suppress(CorpusError):  # a source is gone
        if is_prepared(data, run.corpus):
            return False  # it can be made again
    raise prepared.lost_text_error(damage)


def describe_record(record: prepared.CorpusRecord) -> Iterable[str]:
    """Yield a line about each source: how many pairs it has, and how many are kept."""
    for source in record.sources:
        kept = ", ".join(f"{count:,} {split}" for split, count in source.kept.items()) or "none"
        left_out = [f"{count:,} {name}" for name, count in source.removed.items()]
        reasons = ", ".join(filter(None, [*left_out, _describe_bad(source)])) or "none"
        yield f"{source.name}: {source.pairs:,} pairs; kept: {kept}; left out: {reasons}"
    yield from map(_describe_split, record.given.values())


def _describe_split(split: prepared.ExplicitSplit) -> str:
    return f"{split.name}: {split.pairs:,} pairs; left out: {_describe_bad(split) or 'none'}"


def _describe_bad(source: prepared.SourceRecord | prepared.ExplicitSplit) -> str:
    why = f" ({source.first_bad})" if source.first_bad else ""
    return f"{source.bad:,} that cannot be read{why}" if source.bad else ""


def find_mix(
    config: Config,
    corpus: Path | None,
    stats: TextStats,
    tokenizers: Tokenizers,
    store: EncodedStore,
) -> TrainingMix | None:
    """Return weights and tags of the sources of the training text; None: they are all alike."""
    data = config.data
    added = [(source.weight, source.tag) for source in added_sources(data).values()]
    if isinstance(data, CorpusData):
        record = None if corpus is None else prepared.read_corpus_record(corpus)
        if record is None:
            raise CorpusError(f"{corpus}: the record of the sources is missing or damaged")
        sizes = [source.kept.get("train", 0) for source in record.sources] + stats.parts[1:]
        settings = [*((source.weight, source.tag) for source in data.sources), *added]
    else:
        sizes = stats.parts
        settings = [(1.0, None), *added]
    replay = find_replay(data)
    if replay is None and all(setting == (1.0, None) for setting in settings):
        return None
    weights, tags = zip(*settings, strict=True)
    ids = tuple(None if tag is None else tokenizers.tag_id(tag) for tag in tags)
    mix = TrainingMix(tuple(sizes), weights, ids)
    return mix if replay is None else _weigh_replay(replay, mix, store, config.training.max_length)


def _weigh_replay(
    replay: Replay, mix: TrainingMix, store: EncodedStore, max_length: int
) -> TrainingMix:
    """Return the mix in which the replayed pairs have their share of each epoch."""
    drawn = np.array(mix.weights) * store.count_short_pairs(max_length, mix)
    own, replayed = np.split(drawn, [-len(replay.sources)])
    for name, pairs in (("split 'train'", own), ("data.replay", replayed)):
        if not pairs.any():
            raise CorpusError(
                f"{name}: every pair has a blank side or is longer than training.max_length "
                f"{max_length} tokens; raise it, or give other text"
            )
    factor = replay.share / (1 - replay.share) * own.sum() / replayed.sum()
    scaled = mix.scale_last(len(replayed), float(factor))
    weight = max(scaled.weights[-len(replayed) :])
    if weight > MAX_WEIGHT:
        raise CorpusError(
            f"data.replay: at share {replay.share:g}, a pair would be drawn {weight:,.0f} times an "
            f"epoch, and at most {MAX_WEIGHT:,.0f} are possible; lower share, or give more text"
        )
    return scaled


def describe_replay(replay: Replay, mix: TrainingMix, store: EncodedStore, max_length: int) -> str:
    """Return how many pairs of an epoch are replayed, and from how many they are drawn."""
    pairs = store.count_short_pairs(max_length, mix)
    drawn = np.array(mix.weights) * pairs
    first = len(pairs) - len(replay.sources)
    return (
        f"{drawn[first:].sum():,.0f} of {drawn.sum():,.0f} pairs an epoch, drawn from "
        f"{pairs[first:].sum():,}"
    )
