"""Prepare a run's data before training: learn tokenizers and encode the text."""

from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.data_schema import tag_names
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import BpeDropout
from transformer_cli.data.corpus import StreamedText
from transformer_cli.data.encoding import choose_encoder, write_store
from transformer_cli.data.shards import ShardedStore, TrainingMix
from transformer_cli.data.sources import open_training_text
from transformer_cli.data.store import EncodedStore, open_store, read_stats, store_artifact
from transformer_cli.data.token_arrays import EncodedText, encode_text
from transformer_cli.errors import ConfigError, CorpusError, RunError
from transformer_cli.files import whole_directory
from transformer_cli.runs.checkpoint_directory import list_checkpoints
from transformer_cli.runs.corpus_location import corpus_directory
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import ProgressBar, Tokenizers
from transformer_cli.text.tokenizer import (
    copy_tokenizers,
    fingerprint,
    have_same_tokenizers,
    learn_tokenizers,
    load_text_sha256,
    load_tokenizers,
    matches_configured_files,
)
from transformer_cli.training.sources import find_mix
from transformer_cli.training.texts import Texts, read_val


@dataclass(frozen=True)
class PreparedData:
    """A run's texts, its tokenizers, and the texts as token ids."""

    texts: Texts
    tokenizers: Tokenizers
    train: EncodedStore
    val: EncodedText
    mix: TrainingMix | None = None
    """Weights and tags of the training text's sources; None: they are all alike."""

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Sizes of the source and the target vocabulary."""
        return self.tokenizers.src.size, self.tokenizers.tgt.size


def prepare_data(
    config: Config, texts: Texts, run: RunDirectory, progress: ProgressBar
) -> PreparedData:
    """Learn or copy tokenizers and encode the training text unless the run has them; encode val.

    Raises:
        CorpusError: the training text changes while it is read.
        ConfigError: BPE-dropout is on, and the tokenizers cannot sample.
        RunError: the run was trained on another text, or cannot be written.
        TokenizerError: tokenizers cannot be learned, or their files are damaged.
    """
    tokenizers = _prepare_tokenizers(config, run, texts.train, progress)
    _check_can_sample(config, tokenizers)
    store = _prepare_store(run, texts.train, tokenizers, progress)
    data = _encode_val(config, run, texts, tokenizers, store, progress)
    try:
        _shard(config, store, data.mix).save_counts()
    except OSError as error:
        raise _write_error(run, error) from error
    return data


def _encode_val(
    config: Config,
    run: RunDirectory,
    texts: Texts,
    tokenizers: Tokenizers,
    store: EncodedStore,
    progress: ProgressBar,
) -> PreparedData:
    mix = find_mix(config, corpus_directory(run), texts.train.stats, tokenizers, store)
    val = encode_text(texts.val, tokenizers, progress)
    return PreparedData(texts, tokenizers, store, val, mix)


def find_prepared_data(
    config: Config, texts: Texts, run: RunDirectory, progress: ProgressBar
) -> PreparedData | None:
    """Return the data that ``prepare_data`` would reuse as a whole, or None; write nothing.

    Raises:
        ConfigError: BPE-dropout is on, and the tokenizers cannot sample.
        RunError: the run was trained on another text.
        TokenizerError: the tokenizers' files are damaged.
    """
    text_sha256 = texts.train.stats.text_sha256
    if not _can_reuse_tokenizers(config, run, text_sha256):
        return None
    store = open_store(run.encoded, text_sha256, fingerprint(run.tokenizer))
    if store is None:
        return None
    tokenizers = load_tokenizers(run.tokenizer)
    _check_can_sample(config, tokenizers)
    return _encode_val(config, run, texts, tokenizers, store, progress)


def open_prepared_data(config: Config, run: RunDirectory, progress: ProgressBar) -> PreparedData:
    """Open the data that the main process has prepared, without a lock and without writing.

    The training text is not read again, and the store's checksums are not verified.

    Raises:
        RunError: the data is not prepared.
        CorpusError: the validation text is missing, misaligned, damaged or blank.
        TokenizerError: the tokenizers' files are damaged.
    """
    stats = read_stats(run.encoded)
    if stats is None or not run.tokenizer.is_dir():
        raise _not_prepared(run)
    directory = corpus_directory(run)
    train = StreamedText(open_training_text(config.data, directory), stats)
    texts = read_val(config.data, train, directory)
    tokenizers = load_tokenizers(run.tokenizer)
    store = open_store(run.encoded, stats.text_sha256, fingerprint(run.tokenizer), is_verified=True)
    if store is None or load_text_sha256(run.tokenizer) != stats.text_sha256:
        raise _not_prepared(run)
    return _encode_val(config, run, texts, tokenizers, store, progress)


def _not_prepared(run: RunDirectory) -> RunError:
    return RunError(
        f"{run.encoded}: missing, or does not belong to {run.tokenizer}; make both with: "
        "transformer-cli vocab CONFIG"
    )


def _write_error(run: RunDirectory, error: OSError) -> RunError:
    return RunError(f"{run.encoded}: cannot be written: {error.strerror or error}")


def _prepare_tokenizers(
    config: Config, run: RunDirectory, text: StreamedText, progress: ProgressBar
) -> Tokenizers:
    text_sha256 = text.stats.text_sha256
    if _can_reuse_tokenizers(config, run, text_sha256):
        return load_tokenizers(run.tokenizer)
    if run.tokenizer.is_dir():
        run.remove_data()
    source = _init_tokenizers(config)
    languages = (config.data.src_lang, config.data.tgt_lang)
    tags = tag_names(config.data)
    with whole_directory(run.tokenizer) as directory:
        if source is not None:
            return copy_tokenizers(source, text_sha256, directory, tags)
        return learn_tokenizers(
            config.tokenizer, *languages, text.src, text.tgt, text_sha256, directory, progress, tags
        )


def _can_reuse_tokenizers(config: Config, run: RunDirectory, text_sha256: str) -> bool:
    """Return whether the run's tokenizers belong to ``config`` and the training text.

    Raises:
        RunError: they do not, and the run has checkpoints.
    """
    if not run.tokenizer.is_dir():
        return False
    is_begun = bool(list_checkpoints(run.checkpoints))
    source = _init_tokenizers(config)
    # The run that ``init`` names may have been retrained with other tokenizers.
    is_source_same = is_begun or source is None or have_same_tokenizers(source, run.tokenizer)
    # A copied model file is copied again if the original has changed.
    are_files_same = (
        is_begun or source is not None or matches_configured_files(config.tokenizer, run.tokenizer)
    )
    if load_text_sha256(run.tokenizer) == text_sha256 and is_source_same and are_files_same:
        return True
    if is_begun:
        raise RunError(
            f"{run.path}: the training text has changed since this run began; choose another "
            "--run-dir, or start anew with --overwrite"
        )
    return False


def _init_tokenizers(config: Config) -> Path | None:
    return RunDirectory(config.init).tokenizer if config.init is not None else None


def _prepare_store(
    run: RunDirectory, text: StreamedText, tokenizers: Tokenizers, progress: ProgressBar
) -> EncodedStore:
    expected = (text.stats.text_sha256, fingerprint(run.tokenizer))
    try:
        store = open_store(run.encoded, *expected)
        if store is not None:
            record = store_artifact(run.encoded).update(store.record, stats=text.stats)
            return EncodedStore(run.encoded, record)
        run.remove(run.encoded)
        encode = choose_encoder(tokenizers, run.tokenizer, len(text))
        return write_store(run.encoded, text, encode, expected[1], progress)
    except OSError as error:
        raise _write_error(run, error) from error


def select_training_pairs(
    config: Config, store: EncodedStore, mix: TrainingMix | None = None
) -> ShardedStore:
    """Return the pairs that are not longer than ``training.max_length``, in shards.

    Raises:
        CorpusError: all pairs are longer.
    """
    pairs = _shard(config, store, mix)
    if not len(pairs):
        raise CorpusError(
            f"split 'train': every pair is longer than training.max_length "
            f"{config.training.max_length} tokens; raise it"
        )
    return pairs


def _shard(config: Config, store: EncodedStore, mix: TrainingMix | None) -> ShardedStore:
    return ShardedStore(store, config.training.max_length, config.training.batch_tokens, mix=mix)


def _check_can_sample(config: Config, tokenizers: Tokenizers) -> None:
    # The schema cannot know which kind of model a given file holds.
    for side in ("src", "tgt"):
        can_sample = getattr(tokenizers, side).can_sample
        if getattr(config.training, f"{side}_bpe_dropout") and not can_sample:
            raise ConfigError(
                f"training.{side}_bpe_dropout: needs merges to leave out, and the tokenizer's "
                "model is not one of byte pair encoding (BPE); leave it at 0"
            )


def build_bpe_dropout(config: Config, tokenizers: Tokenizers) -> BpeDropout | None:
    """Return the sampler for ``src_bpe_dropout`` and ``tgt_bpe_dropout``; None if both are 0."""
    src, tgt = tokenizers.src, tokenizers.tgt
    rates = (config.training.src_bpe_dropout, config.training.tgt_bpe_dropout)
    return BpeDropout(src, tgt, *rates, config.training.max_length) if any(rates) else None
