"""What has to be there before training: tokenizers, and the corpus as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelText, without_blank_pairs
from transformer_cli.data.encoded import EncodedText, TokenStore, encode_text
from transformer_cli.data.sources import load_split
from transformer_cli.errors import CorpusError
from transformer_cli.files import whole_directory
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import (
    Progress,
    Tokenizers,
    learn_tokenizers,
    load_tokenizers,
)
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class Prepared:
    """A run's texts and tokenizers, ready for training."""

    tokenizers: Tokenizers
    train: EncodedText
    val: EncodedText
    val_text: ParallelText
    blank_pairs: int
    """Training pairs dropped because a side was blank."""


def prepare(config: Config, run: RunDirectory, progress: Progress) -> Prepared:
    """Read the corpus, learn the tokenizers unless the run has them, encode train and val.

    Args:
        config: the experiment's settings.
        run: a prepared run directory.
        progress: draws a bar.

    Raises:
        CorpusError, TokenizerError: the corpus or the tokenizer's files will not do.
    """
    train_text, blank_pairs = without_blank_pairs(load_split(config.data, "train"))
    val_text, _ = without_blank_pairs(load_split(config.data, "val"))
    for name, text in (("train", train_text), ("val", val_text)):
        if not len(text):
            raise CorpusError(f"split '{name}': every pair has a blank side; nothing is left of it")
    tokenizers = _tokenizers(config, run, train_text, progress)
    return Prepared(
        tokenizers=tokenizers,
        train=encode_text(train_text, tokenizers, progress),
        val=encode_text(val_text, tokenizers, progress),
        val_text=val_text,
        blank_pairs=blank_pairs,
    )


def _tokenizers(
    config: Config, run: RunDirectory, text: ParallelText, progress: Progress
) -> Tokenizers:
    if not run.tokenizer.is_dir():
        languages = (config.data.src_lang, config.data.tgt_lang)
        with whole_directory(run.tokenizer) as directory:
            learn_tokenizers(config.tokenizer, *languages, text.src, text.tgt, directory, progress)
    return load_tokenizers(run.tokenizer)


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
