"""Set up training: begin the run, check and encode the text, learn tokenizers, build the trainer.

The main process holds the run's lock and prepares the missing data. The other processes wait, and
then open the result. A dry run does this in a temporary copy of the run's data.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Protocol

import torch

from transformer_cli.base import registry
from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.base.messages import log, warn
from transformer_cli.base.ranks import Ranks
from transformer_cli.base.workers import OpenExecutor, SerialExecutor
from transformer_cli.base.writing import whole_directory
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import find_owners
from transformer_cli.data.batches import Augmentation
from transformer_cli.data.corpus import (
    MIN_PAIRS_FOR_WORKERS,
    ParallelText,
    StreamedText,
    without_blank_pairs,
)
from transformer_cli.data.kinds import (
    Preparation,
    find_mixing,
    load_split,
    open_kind,
    open_training_text,
)
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.store import (
    EncodedStore,
    EncodedText,
    Load,
    encode_pairs,
    load_once,
    open_store,
    read_stats,
    store_artifact,
    write_store,
)
from transformer_cli.model.transformer import build_model, load_weights
from transformer_cli.runs import initialize
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import check_init, open_checkpoint
from transformer_cli.text import tokenizer
from transformer_cli.text.protocol import PAD_ID, Tokenizers
from transformer_cli.training.trainer import Trainer

_CHANGES = ("words", "subwords", "rows")
"""Augmentations change words, subwords or rows (whole pairs of sentences), in this order."""


@dataclass(frozen=True)
class TrainRequest:
    """What to train, in which run directory, and how to read the text."""

    config: Config
    run: RunDirectory
    overwrite: bool  # whether to rename an earlier run and start again
    extras: Sequence[object]  # options of extensions; checks of the text may use them
    open_executor: OpenExecutor  # opens the executor that reads the text
    is_dry: bool = False  # whether to write nothing to the run


@dataclass(frozen=True)
class Texts:
    """The texts to train and validate on; pairs with a blank side are dropped and counted."""

    train: StreamedText
    val: ParallelText
    blank_in_val: int


@dataclass(frozen=True)
class PreparedData:
    """A run's texts and tokenizers, and the texts as token ids."""

    texts: Texts
    tokenizers: Tokenizers
    train: EncodedStore
    pairs: ShardedStore
    """The pairs of ``train`` that are not longer than ``training.max_length``."""
    val: EncodedText

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """The sizes of the source and target vocabularies."""
        return self.tokenizers.src.size, self.tokenizers.tgt.size


@contextmanager
def open_data(request: TrainRequest, ranks: Ranks) -> Iterator[PreparedData]:
    """Prepare and yield a run's data; the main process holds the run's lock inside the block."""
    with ExitStack() as stack:
        run, data = request.run, None
        if ranks.is_main:
            run, data = _prepare(request, stack)
        ranks.barrier()  # preparing may take hours, and a broadcast times out after minutes
        run = RunDirectory(Path(ranks.broadcast(str(run.path))))
        yield data or open_prepared_data(request.config, run)
        ranks.barrier()  # before a temporary directory is removed


def _prepare(request: TrainRequest, stack: ExitStack) -> tuple[RunDirectory, PreparedData]:
    """Begin the run, or a temporary one for a dry run, inside ``stack``; prepare missing data."""
    config, run = request.config, request.run
    check_init(config, run, request.overwrite)
    is_kept = open_kind(config.data).keeps_text
    with request.open_executor() as executor:  # closed before the model needs the memory
        # If possible, check the text before renaming an earlier run: the check may fail.
        texts = None if is_kept else check_texts(request, run, executor)
        if request.is_dry:
            run = stack.enter_context(_open_trial(request))
        else:
            stack.enter_context(initialize.begin_run(run, config, request.overwrite))
        if texts is None:
            prepare_text(config.data, run, executor)
            texts = check_texts(request, run, executor)
        data = prepare_data(config, texts, run, executor)
    return run, data


@contextmanager
def _open_trial(request: TrainRequest) -> Iterator[RunDirectory]:
    """Yield a temporary run, with copies of the data that a resumed run would use."""
    run, config = request.run, request.config
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as temporary:
        trial = RunDirectory(Path(temporary))
        if run.config.is_file() and not request.overwrite:
            trial.checkpoints = run.checkpoints
            if not initialize.is_data_outdated(run, config):
                for data in filter(Path.is_dir, (run.corpus, run.tokenizer, run.encoded)):
                    try:
                        shutil.copytree(data, trial.path / data.name)
                    except OSError as error:  # shutil's error lists every file that failed
                        problem = f"cannot be copied to {trial.path}; free space there"
                        raise RunError(f"{data}: {problem}, or set TMPDIR") from error
        yield trial


# --- text -----------------------------------------------------------------------------------------


def prepare_text(data: DataConfig, run: RunDirectory, executor: Executor | None = None) -> None:
    """Write the run's own copy of the text, if the data kind needs one; the run must be locked."""
    clear = partial(run.remove_data, run.corpus)
    try:
        open_kind(data).prepare(Preparation(run.corpus, run.has_checkpoints, clear, log, executor))
    except OSError as error:
        raise RunError(f"{run.corpus}: cannot be written: {error.strerror or error}") from error


class ExperimentCheck(Protocol):
    """A check of the texts to train and score on; its methods may reject a text (CorpusError)."""

    notes: list[str]
    """Warnings of one line each, which start with the name of a split and a colon."""

    def check_scored(self) -> None:
        """Check the validation and test splits."""

    def conclude(self, text_sha256: str, is_known: bool, executor: Executor) -> None:
        """Check the training text, using ``executor``; ``is_known`` if it was checked before."""


def check_texts(request: TrainRequest, run: RunDirectory, executor: Executor) -> Texts:
    """Read the texts, some of which ``run`` may have copies of, and let extensions check them.

    An extension adds a check with an entry for the interface ``text_check``; ``load`` names a
    function that returns an ``ExperimentCheck``. Its arguments are the data settings, the directory
    of the run's own text or None, a dict of the parts of the training text, ``extras`` (the options
    of extensions) and ``is_begun`` (whether there are checkpoints).
    """
    data, place = request.config.data, run.text_place
    is_begun = not request.overwrite and run.has_checkpoints
    text = open_training_text(data, place)
    entries = registry.entries("text_check").values()
    checks: list[ExperimentCheck] = [
        entry.load()(data, place, text.parts, extras=request.extras, is_begun=is_begun)
        for entry in entries
    ]
    try:
        for check in checks:
            check.check_scored()
        known = read_stats(run.encoded)
        train = StreamedText.of(text, known, executor)
        text_sha256 = train.stats.text_sha256
        if len(train) < MIN_PAIRS_FOR_WORKERS:
            executor = SerialExecutor()
        for check in checks:
            is_known = known is not None and known.text_sha256 == text_sha256
            check.conclude(text_sha256, is_known, executor)
        return read_val(data, train, place)
    finally:
        for note in (note for check in checks for note in check.notes):
            where, _, finding = note.partition(": ")
            warn(where, finding)


def read_val(data: DataConfig, train: StreamedText, place: Path | None = None) -> Texts:
    """Read the validation split; return it with ``train``. For ``place``, see ``load_split``."""
    val, blank_in_val = without_blank_pairs(load_split(data, "val", place))
    for name, pairs in (("train", len(train)), ("val", len(val))):
        if not pairs:
            raise CorpusError(f"split '{name}': every pair has a blank side; add pairs with text")
    return Texts(train, val, blank_in_val)


# --- tokenizers and token ids ---------------------------------------------------------------------


def prepare_data(
    config: Config, texts: Texts, run: RunDirectory, executor: Executor | None = None
) -> PreparedData:
    """Learn or copy the run's tokenizers and encode its text; reuse what the run already has."""
    tokenizers = _prepare_tokenizers(config, run, texts.train)
    try:
        store = _encode(texts.train, run, tokenizers, executor or SerialExecutor())
        return _join(config, run, texts, tokenizers, store)
    except OSError as error:
        raise RunError(f"{run.encoded}: cannot be written: {error.strerror or error}") from error


def _encode(
    text: StreamedText, run: RunDirectory, tokenizers: Tokenizers, executor: Executor
) -> EncodedStore:
    """Encode the training text, unless the run has its token ids; return them."""
    expected = (text.stats.text_sha256, tokenizer.fingerprint(run.tokenizer))
    if (store := open_store(run.encoded, *expected)) is not None:
        store_artifact(run.encoded).update(store.record, stats=text.stats)
        return store
    run.remove_data(run.encoded)
    load: Load = partial(load_once, run.tokenizer.absolute(), expected[1])
    if len(text) < MIN_PAIRS_FOR_WORKERS:
        executor, load = SerialExecutor(), lambda: tokenizers
    return write_store(run.encoded, text, load, expected[1], executor)


def open_prepared_data(config: Config, run: RunDirectory) -> PreparedData:
    """Open a run's prepared data without a lock, without writing, and without reading it all."""
    place, stats, store = run.text_place, read_stats(run.encoded), None
    if stats is not None and run.tokenizer.is_dir():
        # A store belongs to tokenizers that were learned from its text.
        store = open_store(run.encoded, stats.text_sha256, tokenizer.fingerprint(run.tokenizer))
    if stats is None or store is None:
        raise RunError(
            f"{run.encoded}: missing, or does not belong to {run.tokenizer}; make both with "
            "transformer-cli vocab CONFIG"
        )
    train = StreamedText(open_training_text(config.data, place), stats)
    tokenizers = tokenizer.load_tokenizers(run.tokenizer)
    return _join(config, run, read_val(config.data, train, place), tokenizers, store)


def _join(
    config: Config, run: RunDirectory, texts: Texts, tokenizers: Tokenizers, store: EncodedStore
) -> PreparedData:
    """Choose pairs to train on, and encode the validation split."""
    given = (config, run.text_place, texts.train.stats, tokenizers, store)
    mixed = (entry.load()(*given) for entry in find_mixing(config.data))
    pairs = next(filter(None, mixed), None) or ShardedStore(store, config.training.max_length)
    val = encode_pairs(texts.val.pairs(), tokenizers)
    return PreparedData(texts, tokenizers, store, pairs, val)


def _prepare_tokenizers(config: Config, run: RunDirectory, text: StreamedText) -> Tokenizers:
    """Return the run's tokenizers; learn or copy them if it has none that fit."""
    if _can_reuse_tokenizers(config, run, text.stats.text_sha256):
        return tokenizer.load_tokenizers(run.tokenizer)
    if run.tokenizer.is_dir():
        run.remove_data(run.tokenizer, run.encoded)
    with whole_directory(run.tokenizer) as directory:
        return _make_tokenizers(config, text, directory)


def _make_tokenizers(config: Config, text: StreamedText, directory: Path) -> Tokenizers:
    stats, codecs = text.stats, tokenizer.describe_codecs(config)
    traits = {"letterless": stats.letterless, "copied": stats.copied}
    if config.init is not None:
        source = RunDirectory(config.init).tokenizer
        return tokenizer.copy_tokenizers(source, stats.text_sha256, directory, codecs, traits)
    languages = config.data.src_lang, config.data.tgt_lang
    learned_from = tokenizer.TrainingText(*languages, text.src, text.tgt, stats.text_sha256, traits)
    return tokenizer.learn_tokenizers(config.tokenizer, learned_from, directory, codecs)


def _can_reuse_tokenizers(config: Config, run: RunDirectory, text_sha256: str) -> bool:
    """Return whether the run's tokenizers belong to ``config`` and the training text."""
    if not run.tokenizer.is_dir():
        return False
    manifest = tokenizer.load_manifest(run.tokenizer)
    is_of_text = manifest.learned_from == text_sha256
    if run.has_checkpoints:
        if is_of_text:
            return True
        raise RunError(
            f"{run.path}: the training text has changed since this run began; choose another "
            "`run_dir`, or start again with `overwrite`"
        )
    if config.init is not None:
        # The run in ``init`` may have been trained again with other tokenizers.
        source = RunDirectory(config.init).tokenizer
        return is_of_text and tokenizer.have_same_tokenizers(source, run.tokenizer)
    return is_of_text and manifest.is_made_by(config.tokenizer)


# --- the trainer ----------------------------------------------------------------------------------


def build_augmentation(
    config: Config, tokenizers: Tokenizers, store: EncodedStore
) -> Augmentation | None:
    """Return the function that changes batches in each epoch, or None if no setting asks for it."""
    # Only settings of extensions can ask for an augmentation.
    entries = registry.entries("augmentation").values() if find_owners(config) else ()
    found = [change for entry in entries for change in entry.load()(config, tokenizers, store)]
    found.sort(key=lambda change: _CHANGES.index(change[0]))
    steps: list[Augmentation] = [step for _, step in found]
    return reduce(_compose, steps) if steps else None


def _compose(first: Augmentation, second: Augmentation) -> Augmentation:
    return lambda text, seed: second(first(text, seed), seed)


def build_trainer(
    config: Config,
    data: PreparedData,
    run: RunDirectory,
    device: torch.device,
    precision: torch.dtype,
    ranks: Ranks,
) -> Trainer:
    """Build the model and its trainer at step 0; a new run gets the weights of ``init``, if set."""
    if not data.pairs.num_pairs:
        raise CorpusError(
            f"split 'train': every pair is longer than training.max_length "
            f"({config.training.max_length} tokens); raise it"
        )
    model = build_model(config.model, *data.vocab_sizes, PAD_ID, config.seed).to(device)
    if config.init is not None and not run.has_checkpoints:
        source = RunDirectory(config.init)
        load_weights(model, open_checkpoint(source, "best").load_weights())
    change = build_augmentation(config, data.tokenizers, data.train)
    return Trainer(model, data.pairs, config, precision, change, ranks)
