"""Subwords by SentencePiece: models learned here, and models made elsewhere."""

from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import SentencePieceConfig
from transformer_cli.text import description
from transformer_cli.text.description import TrainingText
from transformer_cli.text.kinds import files
from transformer_cli.text.kinds.learned import learn_files, load_files
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.renumbering import Specials
from transformer_cli.text.subwords import (
    SentencePieceTokenizer,
    find_specials,
    learn_model,
    open_model,
)


class Description(description.Description):
    """What tokenizer.json says of models learned here, whose ids are ours."""

    kind: Literal["sentencepiece"] = "sentencepiece"
    joint: bool

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        return load_files(self.joint, directory, FileDescription.file_name, self._load_side)

    def _load_side(self, path: Path) -> SentencePieceTokenizer:
        return SentencePieceTokenizer(self.verified(path), self.lowercase, path)


class FileDescription(files.Description):
    """What tokenizer.json says of models made elsewhere."""

    kind: Literal["sentencepiece_file"] = "sentencepiece_file"

    @staticmethod
    def file_name(side: files.Side) -> str:
        """The name that a side's model has in a tokenizer's directory."""
        return f"{side}.model"

    def make(self, data: bytes, path: Path, specials: Specials) -> SentencePieceTokenizer:
        """The tokenizer that a model's bytes are."""
        return SentencePieceTokenizer(data, self.lowercase, path, specials)


def learn(
    config: SentencePieceConfig, text: TrainingText, directory: Path
) -> Description | FileDescription:
    """Learn models, or copy those that the configuration names, into ``directory``.

    Raises:
        TokenizerError: ``tokenizer.vocab_size`` is not possible with this text; or a model made
            elsewhere cannot be read or used.
    """
    if config.files:
        specials, found = files.copy_files(
            config.files, directory, FileDescription.file_name, _find_specials
        )
        return FileDescription(
            lowercase=config.lowercase,
            learned_from=text.text_sha256,
            specials=specials,
            sha256=found,
        )
    found = learn_files(
        config.joint,
        text,
        directory,
        FileDescription.file_name,
        lambda lines, label: learn_model(config, lines, label, text.progress),
    )
    return Description(
        lowercase=config.lowercase,
        learned_from=text.text_sha256,
        joint=config.joint,
        sha256=found,
    )


def _find_specials(model: bytes, path: Path) -> Specials:
    return find_specials(open_model(model, path, "give a model that SentencePiece made"))
