"""The training and validation texts of an experiment, checked and audited."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.audit.text_audit import TextAudit
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.data.corpus import ParallelText, StreamedText, TextStats, without_blank_pairs
from transformer_cli.data.sources import load_split, open_training_text
from transformer_cli.data.store import read_stats
from transformer_cli.errors import CorpusError
from transformer_cli.runs.checkpoint_directory import list_checkpoints
from transformer_cli.runs.corpus_location import corpus_directory
from transformer_cli.runs.directory import RunDirectory

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


def audit_texts(
    data: DataConfig, run: RunDirectory, overwrite: bool, allow_suspect: bool, warn: Warn
) -> Texts:
    """Check and audit an experiment's texts.

    Raises:
        CorpusError: a text is missing, misaligned, damaged or blank.
        SuspectTextError: a text can only be a mistake.
    """
    is_begun = not overwrite and bool(list_checkpoints(run.checkpoints))
    audit = TextAudit(data, allow_suspect, is_begun, corpus_directory(run))
    try:
        audit.look_at_scored()
        train = StreamedText.of(audit.training_text(), read_stats(run.encoded))
        audit.conclude(train.stats.text_sha256)
        return read_val(data, train, audit.earlier)
    finally:
        for note in audit.notes:
            where, _, finding = note.partition(": ")
            warn(where, finding)


def read_texts(data: DataConfig, known: TextStats | None = None) -> Texts:
    """Check the texts without an audit; training text as in the stats ``known`` is not read.

    Raises:
        CorpusError: a text is missing, misaligned, damaged or blank.
    """
    return read_val(data, StreamedText.of(open_training_text(data), known))


def read_val(data: DataConfig, train: StreamedText, directory: Path | None = None) -> Texts:
    """Read the validation split, perhaps from ``directory``; return it with the training text.

    Raises:
        CorpusError: the split is missing, misaligned or damaged, or one has only blank pairs.
    """
    val, blank_in_val = without_blank_pairs(load_split(data, "val", directory))
    for name, pairs in (("train", len(train)), ("val", len(val))):
        if not pairs:
            raise CorpusError(f"split '{name}': every pair has a blank side; nothing is left of it")
    return Texts(train, val, blank_in_val)
