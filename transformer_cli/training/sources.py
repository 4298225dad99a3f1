"""Prepare the corpus of a run whose text comes from sources."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from transformer_cli.config.data_schema import (
    MAX_WEIGHT,
    CorpusData,
    DataConfig,
    Replay,
    added_sources,
    find_replay,
)
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import PairProgress, TextStats
from transformer_cli.data.prepared import (
    CorpusRecord,
    ExplicitSplit,
    SourceRecord,
    find_damage,
    lost_text_error,
    read_corpus_record,
    update_given_splits,
)
from transformer_cli.data.preparing import is_prepared, prepare_corpus
from transformer_cli.data.shards import TrainingMix, count_short_pairs
from transformer_cli.data.store import EncodedStore
from transformer_cli.errors import CorpusError, RunError
from transformer_cli.runs.checkpoint_directory import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import Tokenizers


def prepare_sources(
    data: DataConfig,
    run: RunDirectory,
    progress: PairProgress,
    log: Callable[[str], object],
) -> None:
    """Read, filter and split the sources into the run, unless it has them.

    A run that has checkpoints goes on with its own corpus, whatever became of the sources.

    Args:
        data: of kind corpus; nothing is done for others.
        run: locked, and initialized with ``data``.
        progress: wraps the pairs of each source.
        log: shows a line about what was left out.

    Raises:
        CorpusError: a source cannot be read, or too few pairs are left.
        MissingExtraError: a format or a filter needs a package that is not installed.
        RunError: the corpus cannot be written.
    """
    if not isinstance(data, CorpusData):
        return
    try:
        if has_sources(data, run):
            for given in update_given_splits(data, run.corpus, _is_begun(run)):
                log(_describe_given(given))
            return
        run.remove(run.corpus)
        record = prepare_corpus(data, run.corpus, progress)
    except OSError as error:
        raise RunError(f"{run.corpus}: cannot be written: {error.strerror or error}") from error
    for line in describe_record(record):
        log(line)


def reads_sources(data: DataConfig) -> bool:
    """Return whether there is no text before ``prepare_sources``."""
    return isinstance(data, CorpusData)


def has_sources(data: DataConfig, run: RunDirectory) -> bool:
    """Return whether the run's corpus is of the sources as they are, or is trained on already.

    Raises:
        CorpusError: it is trained on already, but is lost, and the sources are not as they were.
    """
    record = read_corpus_record(run.corpus)
    if not isinstance(data, CorpusData) or record is None:
        return False
    damage = find_damage(run.corpus, record, record.drawn)
    if not _is_begun(run):
        return damage is None and is_prepared(data, run.corpus)
    if damage is not None and not _can_prepare_again(data, run):
        raise lost_text_error(damage)
    return damage is None


def _is_begun(run: RunDirectory) -> bool:
    return bool(list_checkpoints(run.checkpoints))


def _can_prepare_again(data: CorpusData, run: RunDirectory) -> bool:
    try:
        return is_prepared(data, run.corpus)
    except CorpusError:  # a source is gone
        return False


def describe_record(record: CorpusRecord) -> Iterable[str]:
    """Yield a line about each source: how many pairs it has, and how many are kept."""
    for source in record.sources:
        kept = ", ".join(f"{count:,} {split}" for split, count in source.kept.items()) or "none"
        removed = "".join(f", {count:,} {name}" for name, count in source.removed.items())
        bad = f", {_describe_bad(source)}" if source.bad else ""
        left_out = (removed + bad).removeprefix(", ") or "none"
        yield f"{source.name}: {source.pairs:,} pairs; kept: {kept}; left out: {left_out}"
    yield from map(_describe_given, record.given.values())


def _describe_given(given: ExplicitSplit) -> str:
    left_out = _describe_bad(given) if given.bad else "none"
    return f"{given.name}: {given.pairs:,} pairs; left out: {left_out}"


def _describe_bad(source: SourceRecord | ExplicitSplit) -> str:
    why = f" ({source.first_bad})" if source.first_bad else ""
    return f"{source.bad:,} that cannot be read{why}"


def find_mix(
    config: Config,
    corpus: Path | None,
    stats: TextStats,
    tokenizers: Tokenizers,
    store: EncodedStore,
) -> TrainingMix | None:
    """Return weights and tags of the sources of the training text; None: they are all alike.

    Args:
        config: says where the text comes from.
        corpus: the prepared corpus, for kind corpus.
        stats: of the training text.
        tokenizers: with the ids of the tags.
        store: the training text, encoded.

    Raises:
        CorpusError: the corpus is not prepared, or too few pairs are left to replay.
    """
    data = config.data
    added = [(source.weight, source.tag) for source in added_sources(data).values()]
    if isinstance(data, CorpusData):
        record = None if corpus is None else read_corpus_record(corpus)
        if record is None:
            raise CorpusError(f"{corpus}: the record of the sources is missing or damaged")
        sizes = [source.kept.get("train", 0) for source in record.sources] + stats.parts[1:]
        settings = [*((source.weight, source.tag) for source in data.sources), *added]
    else:
        sizes = stats.parts
        settings = [(1.0, None), *added]
    replay = find_replay(data)
    if replay is None and all(each == (1.0, None) for each in settings):
        return None
    weights, tags = zip(*settings, strict=True)
    ids = tuple(None if tag is None else tokenizers.tag_id(tag) for tag in tags)
    mix = TrainingMix(tuple(sizes), weights, ids)
    return mix if replay is None else _weigh_replay(replay, mix, store, config.training.max_length)


def _weigh_replay(
    replay: Replay, mix: TrainingMix, store: EncodedStore, max_length: int
) -> TrainingMix:
    """Return the mix in which the replayed pairs have their share of each epoch."""
    drawn = np.array(mix.weights) * count_short_pairs(store, max_length, mix)
    own, replayed = np.split(drawn, [-len(replay.sources)])
    for name, pairs in (("split 'train'", own), ("data.replay", replayed)):
        if not pairs.any():
            raise CorpusError(
                f"{name}: every pair has a blank side or is longer than training.max_length "
                f"{max_length} tokens; raise it, or give other text"
            )
    factor = replay.share / (1 - replay.share) * own.sum() / replayed.sum()
    scaled = mix.scale_last(len(replayed), float(factor))
    most = max(scaled.weights[-len(replayed) :])
    if most > MAX_WEIGHT:
        raise CorpusError(
            f"data.replay: at share {replay.share:g}, a pair would be drawn {most:,.0f} times an "
            f"epoch, and at most {MAX_WEIGHT:,.0f} are possible; lower share, or give more text"
        )
    return scaled


def describe_replay(replay: Replay, mix: TrainingMix, store: EncodedStore, max_length: int) -> str:
    """Return how many pairs of an epoch are replayed, and from how many they are drawn."""
    pairs = count_short_pairs(store, max_length, mix)
    drawn = np.array(mix.weights) * pairs
    first = len(pairs) - len(replay.sources)
    return (
        f"{drawn[first:].sum():,.0f} of {drawn.sum():,.0f} pairs an epoch, drawn from "
        f"{pairs[first:].sum():,}"
    )
