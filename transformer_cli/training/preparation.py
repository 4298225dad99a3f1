"""Set a training up: begin its run, learn tokenizers, encode the text, and build the trainer."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import torch

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError, RunError
from transformer_cli.base.ranks import Ranks
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.base.writing import whole_directory
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Augmentation, BpeDropout, Concatenation
from transformer_cli.data.sources import open_kind, open_training_text
from transformer_cli.data.store import (
    EncodedStore,
    Load,
    ShardedStore,
    load_once,
    open_store,
    read_stats,
    store_artifact,
    write_store,
)
from transformer_cli.data.token_arrays import EncodedText, Mix, encode_text
from transformer_cli.data.training_text import MIN_PAIRS_FOR_WORKERS, StreamedText
from transformer_cli.model.transformer import build_model, load_weights
from transformer_cli.runs import initialize
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import check_init, open_checkpoint
from transformer_cli.text import tokenizer
from transformer_cli.text.protocol import MOST_LINES, ProgressBar, Tokenizers
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.memory import check_memory
from transformer_cli.training.texts import (
    Callbacks,
    Texts,
    TrainRequest,
    Warn,
    audit_texts,
    find_mix,
    has_prepared,
    prepare_text,
    read_val,
)
from transformer_cli.training.trainer import Trainer


@dataclass(frozen=True)
class PreparedData:
    """A run's texts, its tokenizers, the texts as token ids, and how sources are mixed."""

    texts: Texts
    tokenizers: Tokenizers
    train: EncodedStore
    val: EncodedText
    mix: Mix | None = None  # None: all sources of the training text are alike

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Sizes of the source and the target vocabulary."""
        return self.tokenizers.src.size, self.tokenizers.tgt.size


def prepare_data(
    config: Config,
    texts: Texts,
    run: RunDirectory,
    progress: ProgressBar,
    executor: Executor | None = None,
    warn: Warn | None = None,
) -> PreparedData:
    """Learn or copy tokenizers and encode the training text unless the run has them; encode val."""
    executor = executor or SerialExecutor()
    tokenizers = _prepare_tokenizers(config, run, texts.train, progress, executor, warn)
    _check_can_sample(config, tokenizers)
    expected = (texts.train.stats.text_sha256, tokenizer.fingerprint(run.tokenizer))
    try:
        store = open_store(run.encoded, *expected)
        if store is not None:
            record = store_artifact(run.encoded).update(store.record, stats=texts.train.stats)
            store = EncodedStore(run.encoded, record)
        else:
            run.remove_data(run.encoded)
            load: Load = partial(load_once, run.tokenizer.absolute(), expected[1])
            if len(texts.train) < MIN_PAIRS_FOR_WORKERS:
                executor, load = SerialExecutor(), lambda: tokenizers
            store = write_store(run.encoded, texts.train, load, expected[1], progress, executor)
        data = _encode_val(config, run, texts, tokenizers, store, progress)
        _shard(config, store, data.mix).save_counts()
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"{run.encoded}: cannot be written: {reason}") from error
    return data


def open_prepared_data(config: Config, run: RunDirectory, progress: ProgressBar) -> PreparedData:
    """Open prepared data, without a lock, without writing, and without reading it all again."""
    stats = read_stats(run.encoded)
    if stats is not None and run.tokenizer.is_dir():
        directory = initialize.corpus_directory(run)
        train = StreamedText(open_training_text(config.data, directory), stats)
        texts = read_val(config.data, train, directory)
        tokenizers = tokenizer.load_tokenizers(run.tokenizer)
        _check_can_sample(config, tokenizers)
        expected = (stats.text_sha256, tokenizer.fingerprint(run.tokenizer))
        store = open_store(run.encoded, *expected, is_verified=True)
        if store is not None and tokenizer.load_text_sha256(run.tokenizer) == stats.text_sha256:
            return _encode_val(config, run, texts, tokenizers, store, progress)
    raise RunError(
        f"{run.encoded}: missing, or does not belong to {run.tokenizer}; make both with: "
        "transformer-cli vocab CONFIG"
    )


def _check_can_sample(config: Config, tokenizers: Tokenizers) -> None:
    # The schema cannot know which kind of model a given file holds.
    for side in ("src", "tgt"):
        can_sample = getattr(tokenizers, side).can_sample
        if getattr(config.training, f"{side}_bpe_dropout") and not can_sample:
            raise ConfigError(
                f"training.{side}_bpe_dropout: needs merges to leave out, and the tokenizer's "
                "model is not one of byte pair encoding (BPE); leave it at 0"
            )


def _encode_val(
    config: Config,
    run: RunDirectory,
    texts: Texts,
    tokenizers: Tokenizers,
    store: EncodedStore,
    progress: ProgressBar,
) -> PreparedData:
    mix = find_mix(config, initialize.corpus_directory(run), texts.train.stats, tokenizers, store)
    val = encode_text(texts.val, tokenizers, progress)
    return PreparedData(texts, tokenizers, store, val, mix)


def _prepare_tokenizers(
    config: Config,
    run: RunDirectory,
    text: StreamedText,
    progress: ProgressBar,
    executor: Executor,
    warn: Warn | None,
) -> Tokenizers:
    stats = text.stats
    text_sha256 = stats.text_sha256
    traits = {"letterless": stats.letterless, "copied": stats.copied}
    if _can_reuse_tokenizers(config, run, text_sha256):
        return tokenizer.load_tokenizers(run.tokenizer)
    if run.tokenizer.is_dir():
        run.remove_data(run.tokenizer, run.encoded)
    codecs = tokenizer.describe_codecs(config)
    with whole_directory(run.tokenizer) as directory:
        if config.init is not None:
            source = RunDirectory(config.init).tokenizer
            return tokenizer.copy_tokenizers(source, text_sha256, directory, codecs, traits)
        is_sampled = len(text) > MOST_LINES and tokenizer.learns_from_sample(config.tokenizer)
        lines = text.sample(MOST_LINES, executor) if is_sampled else text
        languages = config.data.src_lang, config.data.tgt_lang
        learned_from = tokenizer.TrainingText(
            *languages, lines.src, lines.tgt, text_sha256, progress, warn, traits
        )
        return tokenizer.learn_tokenizers(config.tokenizer, learned_from, directory, codecs)


def _can_reuse_tokenizers(config: Config, run: RunDirectory, text_sha256: str) -> bool:
    """Return whether the run's tokenizers belong to ``config`` and the training text."""
    if not run.tokenizer.is_dir():
        return False
    is_begun = bool(list_checkpoints(run.checkpoints))
    if is_begun:
        is_source_same = True
    elif config.init is not None:
        # The run that ``init`` names may have been retrained with other tokenizers.
        source = RunDirectory(config.init).tokenizer
        is_source_same = tokenizer.have_same_tokenizers(source, run.tokenizer)
    else:
        # A copied model file is copied again if the original has changed.
        is_source_same = tokenizer.matches_configured_files(config.tokenizer, run.tokenizer)
    if tokenizer.load_text_sha256(run.tokenizer) == text_sha256 and is_source_same:
        return True
    if is_begun:
        raise RunError(
            f"{run.path}: the training text has changed since this run began; choose another "
            "`run_dir`, or start again with `overwrite`"
        )
    return False


def select_training_pairs(
    config: Config, store: EncodedStore, mix: Mix | None = None
) -> ShardedStore:
    """Return the pairs that are not longer than ``training.max_length``, in shards."""
    pairs = _shard(config, store, mix)
    if not len(pairs):
        raise CorpusError(
            f"split 'train': every pair is longer than training.max_length "
            f"{config.training.max_length} tokens; raise it"
        )
    return pairs


def _shard(config: Config, store: EncodedStore, mix: Mix | None) -> ShardedStore:
    return ShardedStore(store, config.training.max_length, config.training.batch_tokens, mix=mix)


def build_augmentation(
    config: Config, tokenizers: Tokenizers, store: EncodedStore
) -> Augmentation | None:
    """Return what is done to each batch, anew in each epoch; None: it stays as it is."""
    settings = config.training
    rates = (settings.src_bpe_dropout, settings.tgt_bpe_dropout)
    # Those of extensions return None if the configuration does not ask for them.
    added = (entry.load() for entry in registry.entries("augmentation").values())
    found = (build(config, tokenizers, store) for build in added)
    steps: list[Augmentation] = [step for step in found if step is not None]
    if any(rates):
        steps.append(BpeDropout(tokenizers.src, tokenizers.tgt, *rates, settings.max_length))
    if settings.concatenate:
        steps.append(Concatenation(settings.concatenate, settings.max_length))
    return reduce(_compose, steps) if steps else None


def _compose(first: Augmentation, second: Augmentation) -> Augmentation:
    return lambda text, seed: second(first(text, seed), seed)


@contextmanager
def open_data(request: TrainRequest, ranks: Ranks, report: Callbacks) -> Iterator[PreparedData]:
    """Yield the prepared data; on the main process, hold the run's lock meanwhile.

    The main process prepares what is missing, and the others read it.
    """
    config, origins, run, overwrite, *_ = request
    if not ranks.is_main:
        ranks.barrier()
        yield open_prepared_data(config, run, report.progress)
        return
    check_init(config, run, overwrite)
    is_kept = open_kind(config.data).keeps_text
    with ExitStack() as workers:
        executor = workers.enter_context(request.open_executor())
        texts = None if is_kept else audit_texts(request, run, report, executor)
        beginning = (run, config, overwrite, origins, report.log, request.is_training)
        with initialize.begin_run(*beginning):
            initialize.record_corpus_directory(run, config.data)
            if texts is None:
                prepare_text(config.data, run, report.pairs, report.log, executor)
                texts = audit_texts(request, run, report, executor)
            data = prepare_data(config, texts, run, report.progress, executor, report.warn)
            initialize.record_provenance(run, config)
            workers.close()  # before the model needs their memory
            ranks.barrier()
            yield data


@contextmanager
def open_data_dry(request: TrainRequest, ranks: Ranks, report: Callbacks) -> Iterator[PreparedData]:
    """Yield the prepared data, without writing to the run.

    Unless the run's data can be reused as a whole, it is prepared in a temporary directory.
    """
    data, run = None, request.run
    with ExitStack() as stack:
        if ranks.is_main:
            data, run = _prepare_dry(request, report, stack)
        ranks.barrier()  # preparing may take hours, and a broadcast times out after minutes
        run = RunDirectory(Path(ranks.broadcast(str(run.path))))
        yield data or open_prepared_data(request.config, run, report.progress)
        ranks.barrier()  # before the temporary directory is removed


def _prepare_dry(
    request: TrainRequest, report: Callbacks, stack: ExitStack
) -> tuple[PreparedData | None, RunDirectory]:
    """Prepare data in a directory that ends with ``stack``, unless all is in the run itself."""
    config, _, run, overwrite, *_ = request
    check_init(config, run, overwrite)
    can_reuse = run.config.is_file() and not overwrite
    if can_reuse:
        initialize.check_resumable(run, config)
        can_reuse = not initialize.is_data_outdated(run, config)
    is_kept = open_kind(config.data).keeps_text
    texts = None
    with request.open_executor() as executor:
        if not is_kept or (can_reuse and has_prepared(config.data, run)):
            texts = audit_texts(request, run, report, executor)
            text_sha256 = texts.train.stats.text_sha256
            can_reuse = can_reuse and _can_reuse_tokenizers(config, run, text_sha256)
            if can_reuse and open_store(
                run.encoded, text_sha256, tokenizer.fingerprint(run.tokenizer)
            ):
                return None, run
        temporary = tempfile.TemporaryDirectory(prefix="transformer-cli-")
        trial = RunDirectory(Path(stack.enter_context(temporary)))
        if texts is None or is_kept:
            prepare_text(config.data, trial, report.pairs, report.log, executor)
            texts = audit_texts(request, trial, report, executor)
        return prepare_data(config, texts, trial, report.progress, executor, report.warn), trial


def build_trainer(
    config: Config,
    data: PreparedData,
    run: RunDirectory,
    device: torch.device,
    precision: torch.dtype,
    ranks: Ranks,
) -> Trainer:
    """Build the model and its trainer, at step 0; a new run starts from the weights of ``init``."""
    check_memory(config, data.vocab_sizes, device, ranks)
    pairs = select_training_pairs(config, data.train, data.mix)
    model = build_model(config.model, *data.vocab_sizes, PAD_ID, config.seed).to(device)
    if config.init is not None and not list_checkpoints(run.checkpoints):
        source = RunDirectory(config.init)
        load_weights(model, open_checkpoint(source, "best").load_weights())
    augmentation = build_augmentation(config, data.tokenizers, data.train)
    return Trainer(model, pairs, config, precision, augmentation, ranks)
