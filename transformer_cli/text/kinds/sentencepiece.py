"""Subwords by SentencePiece: models learned here, and models made elsewhere."""

from pathlib import Path
from typing import Literal

from transformer_cli.config.schema import SentencePieceTokenizer
from transformer_cli.files import whole_file
from transformer_cli.text import description
from transformer_cli.text.description import TrainingText, sums
from transformer_cli.text.kinds import files
from transformer_cli.text.lines import Joined, Lines
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.renumbering import Specials
from transformer_cli.text.subwords import (
    SubwordTokenizer,
    find_specials,
    learn_model,
    open_model,
)

_SRC, _TGT, _JOINT = "src.model", "tgt.model", "joint.model"


class Description(description.Description):
    """What tokenizer.json says of models learned here, whose ids are ours."""

    kind: Literal["sentencepiece"] = "sentencepiece"
    joint: bool

    def load(self, directory: Path) -> Tokenizers:
        """The tokenizers of a directory; its files must be as described."""
        if self.joint:
            joint = self._load_side(directory / _JOINT)
            return Tokenizers(src=joint, tgt=joint)
        return Tokenizers(
            src=self._load_side(directory / _SRC), tgt=self._load_side(directory / _TGT)
        )

    def _load_side(self, path: Path) -> SubwordTokenizer:
        return SubwordTokenizer(self.verified(path), self.lowercase, path)


class FileDescription(files.Description):
    """What tokenizer.json says of models made elsewhere."""

    kind: Literal["sentencepiece_file"] = "sentencepiece_file"

    @staticmethod
    def file_name(side: files.Side) -> str:
        """The name that a side's model has in a tokenizer's directory."""
        return f"{side}.model"

    def make(self, data: bytes, path: Path, specials: Specials) -> SubwordTokenizer:
        """The tokenizer that a model's bytes are."""
        return SubwordTokenizer(data, self.lowercase, path, specials)


def learn(
    config: SentencePieceTokenizer, text: TrainingText, directory: Path
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
            lowercase=config.lowercase, learned_from=text.text_sum, specials=specials, sha256=found
        )
    texts: dict[str, tuple[Lines, str]] = {
        _SRC: (text.src, "source text"),
        _TGT: (text.tgt, "target text"),
    }
    if config.joint:
        texts = {_JOINT: (Joined(text.src, text.tgt), "training text")}
    for name, (lines, label) in texts.items():
        model = learn_model(config, lines, label, text.progress)
        with whole_file(directory / name) as temporary:
            temporary.write_bytes(model)
    return Description(
        lowercase=config.lowercase,
        learned_from=text.text_sum,
        joint=config.joint,
        sha256=sums(directory, texts),
    )


def _find_specials(model: bytes, path: Path) -> Specials:
    return find_specials(open_model(model, path, "give a model that SentencePiece made"))
