"""What has to be there before training: tokenizers, and the corpus as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.audit.text_audit import TextAudit
from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpus import ParallelText, without_blank_pairs
from transformer_cli.data.encode_workers import choose_encoder
from transformer_cli.data.lengths import PERCENTILES, percentiles
from transformer_cli.data.sampling import BpeDropout
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.sources import load_split, open_training_text
from transformer_cli.data.store import (
    EncodedStore,
    open_checked_store,
    open_store,
    read_survey,
    refresh_metadata,
)
from transformer_cli.data.store_writer import write_store
from transformer_cli.data.streamed import StreamedText, Survey
from transformer_cli.data.token_arrays import EncodedText, encode_text
from transformer_cli.errors import ConfigError, CorpusError, RunError
from transformer_cli.files import whole_directory
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.found import corpus_directory
from transformer_cli.text.lines import Progress
from transformer_cli.text.tokenizer import (
    Tokenizers,
    copy_tokenizers,
    fingerprint,
    have_same_tokenizers,
    learn_tokenizers,
    load_text_sha256,
    load_tokenizers,
    matches_configured_files,
)
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class Texts:
    """What to train and to validate on; pairs with a blank side are dropped and counted."""

    train: StreamedText
    val: ParallelText
    blank_in_val: int

    @property
    def blank_in_train(self) -> int:
        """Pairs of the training split with a blank side."""
        return self.train.survey.blank


@dataclass(frozen=True)
class Prepared:
    """A run's tokenizers, and its texts as token ids."""

    tokenizers: Tokenizers
    train: EncodedStore
    val: EncodedText


def read_texts(
    data: DataConfig, known: Survey | None = None, audit: TextAudit | None = None
) -> Texts:
    """Check what to train on, and read what to validate on.

    Args:
        data: where they come from.
        audit: what is to look at all texts meanwhile.
        known: what an earlier session found out about its training text: if it is still the same,
            it need not be checked again.

    Raises:
        CorpusError: one is missing, misaligned, damaged or blank.
        ConfigError: something can only be a mistake.
    """
    if audit is None:
        return _with_val(data, StreamedText.of(open_training_text(data), known))
    audit.look_at_scored()
    train = StreamedText.of(audit.training_text(), known)
    audit.conclude(train.survey.text_sha256)
    return _with_val(data, train, audit.earlier)


def _with_val(data: DataConfig, train: StreamedText, earlier: Path | None = None) -> Texts:
    val, blank_in_val = without_blank_pairs(load_split(data, "val", earlier))
    for name, pairs in (("train", len(train)), ("val", len(val))):
        if not pairs:
            raise CorpusError(f"split '{name}': every pair has a blank side; nothing is left of it")
    return Texts(train, val, blank_in_val)


def prepare(config: Config, texts: Texts, run: RunDirectory, progress: Progress) -> Prepared:
    """Learn or inherit tokenizers and encode the text, unless the run has them, and encode val.

    Args:
        config: the experiment's settings.
        texts: what ``read_texts`` gave.
        run: a prepared run directory.
        progress: draws a bar.

    Raises:
        CorpusError: the training text changes while it is read.
        ConfigError: subwords are to be sampled, and the tokenizers cannot.
        RunError: the run was trained on another text, or cannot be written.
        TokenizerError: tokenizers cannot be learned, or their files are damaged.
    """
    tokenizers = _tokenizers(config, run, texts.train, progress)
    _check_can_sample(config, tokenizers)
    store = _encoded(run, texts.train, tokenizers, progress)
    try:
        _shards(config, store).save_counts()
    except OSError as error:
        raise _unwritable(run, error) from error
    return Prepared(tokenizers, store, encode_text(texts.val, tokenizers, progress))


def find_prepared(
    config: Config, texts: Texts, run: RunDirectory, progress: Progress
) -> Prepared | None:
    """What ``prepare`` would find there and take as it is, or None; nothing is written.

    Args:
        config: the experiment's settings, with which the run that is there can go on.
        texts: what ``read_texts`` gave.
        run: a run directory, or none yet.
        progress: draws a bar.

    Raises:
        ConfigError: subwords are to be sampled, and the tokenizers cannot.
        RunError: the run was trained on another text.
        TokenizerError: the tokenizers' files are damaged.
    """
    text_sum = texts.train.survey.text_sha256
    if not _has_tokenizers(config, run, text_sum):
        return None
    store = open_store(run.encoded, text_sum, fingerprint(run.tokenizer))
    if store is None:
        return None
    tokenizers = load_tokenizers(run.tokenizer)
    _check_can_sample(config, tokenizers)
    return Prepared(tokenizers, store, encode_text(texts.val, tokenizers, progress))


def open_prepared(config: Config, run: RunDirectory, progress: Progress) -> tuple[Texts, Prepared]:
    """What ``read_texts`` and ``prepare`` have given another process, by reading alone.

    For the other processes that train the same run: they need no lock, and neither read the
    training text nor check the store from one end to the other.

    Args:
        config: the experiment's settings.
        run: a run directory that ``prepare`` has made ready.
        progress: draws a bar.

    Raises:
        RunError: it is not ready.
        CorpusError: the text to validate on is missing, misaligned, damaged or blank.
        TokenizerError: the tokenizers' files are damaged.
    """
    survey = read_survey(run.encoded)
    if survey is None or not run.tokenizer.is_dir():
        raise _unready(run)
    earlier = corpus_directory(run)
    text = StreamedText(open_training_text(config.data, earlier), survey)
    texts = _with_val(config.data, text, earlier)
    tokenizers = load_tokenizers(run.tokenizer)
    store = open_checked_store(run.encoded, survey.text_sha256, fingerprint(run.tokenizer))
    if store is None or load_text_sha256(run.tokenizer) != survey.text_sha256:
        raise _unready(run)
    return texts, Prepared(tokenizers, store, encode_text(texts.val, tokenizers, progress))


def _unready(run: RunDirectory) -> RunError:
    return RunError(
        f"{run.encoded}: not what belongs to {run.tokenizer}, or not there; make both with: "
        "transformer-cli vocab CONFIG"
    )


def _unwritable(run: RunDirectory, error: OSError) -> RunError:
    return RunError(f"{run.encoded}: cannot be written: {error.strerror or error}")


def _tokenizers(
    config: Config, run: RunDirectory, text: StreamedText, progress: Progress
) -> Tokenizers:
    text_sum = text.survey.text_sha256
    if _has_tokenizers(config, run, text_sum):
        return load_tokenizers(run.tokenizer)
    if run.tokenizer.is_dir():
        run.forget_text()
    source = _source_of_tokenizers(config)
    languages = (config.data.src_lang, config.data.tgt_lang)
    with whole_directory(run.tokenizer) as directory:
        if source is not None:
            return copy_tokenizers(source, text_sum, directory)
        return learn_tokenizers(
            config.tokenizer, *languages, text.src, text.tgt, text_sum, directory, progress
        )


def _has_tokenizers(config: Config, run: RunDirectory, text_sum: str) -> bool:
    """Whether those in the run are what ``config`` and the text ask for."""
    if not run.tokenizer.is_dir():
        return False
    begun = bool(list_checkpoints(run.checkpoints))
    source = _source_of_tokenizers(config)
    # Weights yet to be inherited may have been trained anew, with other tokenizers.
    inherited = begun or source is None or have_same_tokenizers(source, run.tokenizer)
    # What was copied is made anew if there is another file in the old place.
    fresh = begun or source is not None or matches_configured_files(config.tokenizer, run.tokenizer)
    if load_text_sha256(run.tokenizer) == text_sum and inherited and fresh:
        return True
    if begun:
        raise RunError(
            f"{run.path}: the training text has changed since this run began; choose another "
            "--run-dir, or start anew with --overwrite"
        )
    return False


def _source_of_tokenizers(config: Config) -> Path | None:
    return RunDirectory(config.init).tokenizer if config.init is not None else None


def _encoded(
    run: RunDirectory, text: StreamedText, tokenizers: Tokenizers, progress: Progress
) -> EncodedStore:
    expected = (text.survey.text_sha256, fingerprint(run.tokenizer))
    try:
        store = open_store(run.encoded, *expected)
        if store is not None:
            refresh_metadata(run.encoded, text.survey)
            return store
        run.forget(run.encoded)
        encode = choose_encoder(tokenizers, run.tokenizer, len(text))
        return write_store(run.encoded, text, encode, expected[1], progress)
    except OSError as error:
        raise _unwritable(run, error) from error


def text_to_train_on(config: Config, text: EncodedStore) -> ShardedStore:
    """The pairs that are not too long to train on.

    Raises:
        CorpusError: all of them are.
    """
    kept = _shards(config, text)
    if not len(kept):
        raise CorpusError(
            f"split 'train': every pair is longer than training.max_length "
            f"{config.training.max_length} tokens; raise it"
        )
    return kept


def _shards(config: Config, text: EncodedStore) -> ShardedStore:
    return ShardedStore(text, config.training.max_length, config.training.batch_tokens)


def _check_can_sample(config: Config, tokenizers: Tokenizers) -> None:
    """What the schema cannot know: which kind of model a file made elsewhere is."""
    for side in ("src", "tgt"):
        can_sample = getattr(tokenizers, side).can_sample
        if getattr(config.training, f"{side}_bpe_dropout") and not can_sample:
            raise ConfigError(
                f"training.{side}_bpe_dropout: needs merges to leave out, and the tokenizer's "
                "model is not one of byte pair encoding (BPE); leave it at 0"
            )


def subword_sampling(config: Config, tokenizers: Tokenizers) -> BpeDropout | None:
    """What ``training.src_bpe_dropout`` and ``tgt_bpe_dropout`` ask for; None: nothing."""
    src, tgt = tokenizers.src, tokenizers.tgt
    rates = (config.training.src_bpe_dropout, config.training.tgt_bpe_dropout)
    return BpeDropout(src, tgt, *rates, config.training.max_length) if any(rates) else None


@dataclass(frozen=True)
class SideSummary:
    """What a person wants to know of one side's vocabulary."""

    lines: int
    tokens: int
    types: int | None
    """Different words seen in training; None for subwords."""
    size: int
    """Entries of the vocabulary, the four specials included."""
    unknown_in_val: float
    """Share of the validation side's tokens that the vocabulary lacks."""
    lengths: Sequence[int]
    """Tokens of a training line: the percentiles of ``PERCENTILES``."""


def summarise(prepared: Prepared) -> tuple[SideSummary, SideSummary]:
    """The summaries of source and target."""
    types = prepared.tokenizers.types or (None, None)
    sizes = (prepared.tokenizers.src.size, prepared.tokenizers.tgt.size)
    train, val = prepared.train, prepared.val
    counts = train.count_lengths()
    src, tgt = (
        SideSummary(
            lines=len(train),
            tokens=tokens,
            types=types[side],
            size=sizes[side],
            unknown_in_val=float((ids == UNK_ID).mean()) if len(ids) else 0.0,
            lengths=percentiles(counts[side], PERCENTILES),
        )
        for side, tokens, ids in (
            (0, train.src_tokens, val.src.ids),
            (1, train.tgt_tokens, val.tgt.ids),
        )
    )
    return src, tgt
