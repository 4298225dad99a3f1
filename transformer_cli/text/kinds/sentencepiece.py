"""Subwords by SentencePiece: models learned from the training text."""

import io
import re
from pathlib import Path
from typing import Literal

from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.errors import TokenizerError
from transformer_cli.text.kinds import sentencepiece_file
from transformer_cli.text.kinds.sentencepiece_file import (
    SentencePieceFileManifest,
    SentencePieceTokenizer,
)
from transformer_cli.text.lines import Lines, ProgressBar, TrainerInput
from transformer_cli.text.manifest import Side, TrainingText
from transformer_cli.text.model_check import mark_checked
from transformer_cli.text.side_files import SideFilesManifest
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID

# Part of what is learned, as sums of the unigram model depend on how work is split: never the
# machine's own number of cores.
_NUM_THREADS = 4
# In bytes; longer lines are skipped. SentencePiece's own limit, 4192, is a long paragraph.
_MAX_LINE_LENGTH = 1 << 16
_ERRORS_ONLY = 2
_TOO_MANY = re.compile(r"Vocabulary size too high \(\d+\)\. .*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


class SentencePieceManifest(SideFilesManifest):
    """The manifest of models learned here, whose ids are the run's."""

    kind: Literal["sentencepiece"] = "sentencepiece"
    joint: bool
    suffix = "model"

    def open(self, data: bytes, path: Path, side: Side) -> SentencePieceTokenizer:
        """Return the tokenizer of a model's bytes."""
        return SentencePieceTokenizer(data, self.lowercase, path)


MANIFEST = SentencePieceManifest


def learn(
    config: SentencePieceConfig, text: TrainingText, directory: Path
) -> SentencePieceManifest | SentencePieceFileManifest:
    """Learn models, or copy those that the configuration names, into ``directory``.

    Raises:
        TokenizerError: ``tokenizer.vocab_size`` is not possible with this text; or a model made
            elsewhere cannot be read or used.
    """
    if config.files:
        return sentencepiece_file.learn(config, text, directory)
    models = (
        (side, learn_model(config, lines, label, text.progress))
        for side, lines, label in text.sides(config.joint)
    )
    return SentencePieceManifest(
        lowercase=config.lowercase,
        learned_from=text.sha256,
        joint=config.joint,
        sha256=SentencePieceManifest.write_files(models, directory),
    )


def learn_model(
    config: SentencePieceConfig, lines: Lines, label: str, progress: ProgressBar
) -> bytes:
    """Learn a model; the same lines and settings always give the same bytes.

    Args:
        config: the kind of subwords and how many.
        lines: training text. Of more than a million lines, a uniform sample is taken.
        label: the text's name in messages, as in 'source text'.
        progress: wraps the lines, given the label, as tqdm would.

    Raises:
        TokenizerError: ``tokenizer.vocab_size`` is too big or too small for this text.
    """
    import sentencepiece

    model = io.BytesIO()
    text = TrainerInput(progress(lines, label), len(lines), config.lowercase)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=model,
            model_type=config.model_type,
            vocab_size=config.vocab_size,
            byte_fallback=config.byte_fallback,
            character_coverage=config.character_coverage,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            unk_piece=SPECIALS[UNK_ID],
            bos_piece=SPECIALS[BOS_ID],
            eos_piece=SPECIALS[EOS_ID],
            pad_piece=SPECIALS[PAD_ID],
            unk_surface=SPECIALS[UNK_ID],
            max_sentence_length=_MAX_LINE_LENGTH,
            num_threads=_NUM_THREADS,
            minloglevel=_ERRORS_ONLY,
        )
    except (RuntimeError, SystemError) as error:
        if text.failure is not None:
            raise text.failure from None
        raise TokenizerError(_explain(str(error), config.vocab_size, label)) from error
    mark_checked(model.getvalue())
    return model.getvalue()


def _explain(reason: str, vocab_size: int, label: str) -> str:
    """Return one line on why SentencePiece cannot learn, with a size that is possible."""
    if found := _TOO_MANY.search(reason):
        return (
            f"tokenizer.vocab_size: the {label} is too little for {vocab_size} subwords; "
            f"set at most {found[1]}"
        )
    if found := _TOO_FEW.search(reason):
        return (
            f"tokenizer.vocab_size: {vocab_size} entries are too few for the specials, bytes and "
            f"characters of the {label}; set at least {found[1]}, or a lower "
            "tokenizer.character_coverage"
        )
    return f"tokenizer: SentencePiece cannot learn from the {label} ({' '.join(reason.split())})"
