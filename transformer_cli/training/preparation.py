"""What has to be there before training: tokenizers, and the corpus as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer_cli.config.schema import Config, DataConfig
from transformer_cli.data.corpus import ParallelText, without_blank_pairs
from transformer_cli.data.encoded import EncodedText, TokenStore, encode_text
from transformer_cli.data.sources import load_split
from transformer_cli.errors import CorpusError, RunError
from transformer_cli.files import remove_directory, whole_directory
from transformer_cli.runs.checkpoint import list_checkpoints
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import (
    Progress,
    Tokenizers,
    learn_tokenizers,
    learned_from,
    load_tokenizers,
    text_sum,
)
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class Texts:
    """What to train and to validate on; pairs with a blank side are dropped and counted."""

    train: ParallelText
    val: ParallelText
    blank_in_train: int
    blank_in_val: int


@dataclass(frozen=True)
class Prepared:
    """A run's tokenizers, and its texts as token ids."""

    tokenizers: Tokenizers
    train: EncodedText
    val: EncodedText


def read_texts(data: DataConfig) -> Texts:
    """Read what to train and to validate on.

    Raises:
        CorpusError: it is missing, misaligned, damaged or blank.
    """
    train, blank_in_train = without_blank_pairs(load_split(data, "train"))
    val, blank_in_val = without_blank_pairs(load_split(data, "val"))
    for name, text in (("train", train), ("val", val)):
        if not len(text):
            raise CorpusError(f"split '{name}': every pair has a blank side; nothing is left of it")
    return Texts(train, val, blank_in_train, blank_in_val)


def prepare(config: Config, texts: Texts, run: RunDirectory, progress: Progress) -> Prepared:
    """Learn the tokenizers, unless the run has them, and encode both texts.

    Args:
        config: the experiment's settings.
        texts: what ``read_texts`` gave.
        run: a prepared run directory.
        progress: draws a bar.

    Raises:
        RunError: the run was trained on another text.
        TokenizerError: tokenizers cannot be learned, or their files are damaged.
    """
    tokenizers = _tokenizers(config, run, texts.train, progress)
    return Prepared(
        tokenizers=tokenizers,
        train=encode_text(texts.train, tokenizers, progress),
        val=encode_text(texts.val, tokenizers, progress),
    )


def _tokenizers(
    config: Config, run: RunDirectory, text: ParallelText, progress: Progress
) -> Tokenizers:
    if run.tokenizer.is_dir():
        if learned_from(run.tokenizer) == text_sum(text.src, text.tgt):
            return load_tokenizers(run.tokenizer)
        if list_checkpoints(run.checkpoints):
            raise RunError(
                f"{run.path}: the training text has changed since this run began; choose another "
                "--run-dir, or start anew with --overwrite"
            )
        remove_directory(run.tokenizer)
    languages = (config.data.src_lang, config.data.tgt_lang)
    with whole_directory(run.tokenizer) as directory:
        return learn_tokenizers(
            config.tokenizer, *languages, text.src, text.tgt, directory, progress
        )


def text_to_train_on(config: Config, text: EncodedText) -> EncodedText:
    """The pairs that are not too long to train on.

    Raises:
        CorpusError: all of them are.
    """
    kept = text.without_longer_than(config.training.max_length)
    if not len(kept):
        raise CorpusError(
            f"split 'train': every pair is longer than training.max_length "
            f"{config.training.max_length} tokens; raise it"
        )
    return kept


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


PERCENTILES = (50, 90, 99, 100)


def summarise(prepared: Prepared) -> tuple[SideSummary, SideSummary]:
    """The summaries of source and target."""
    types = prepared.tokenizers.types or (None, None)
    sizes = (prepared.tokenizers.src.size, prepared.tokenizers.tgt.size)
    src = _summarise_side(prepared.train.src, prepared.val.src, types[0], sizes[0])
    tgt = _summarise_side(prepared.train.tgt, prepared.val.tgt, types[1], sizes[1])
    return src, tgt


def _summarise_side(
    train: TokenStore, val: TokenStore, types: int | None, size: int
) -> SideSummary:
    percentiles = np.percentile(train.lengths, PERCENTILES, method="inverted_cdf")
    return SideSummary(
        lines=len(train),
        tokens=len(train.ids),
        types=types,
        size=size,
        unknown_in_val=float((val.ids == UNK_ID).mean()) if len(val.ids) else 0.0,
        lengths=[int(each) for each in percentiles],
    )
