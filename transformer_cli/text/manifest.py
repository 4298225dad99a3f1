"""The manifest of a tokenizer's directory: tokenizer.json, with the SHA-256 of the other files."""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from transformer_cli.config.data_schema import TagName
from transformer_cli.config.tokenizer_schema import Protected
from transformer_cli.errors import TokenizerError
from transformer_cli.files import read_small
from transformer_cli.text.lines import BothSides, Lines, ProgressBar
from transformer_cli.text.protocol import Tokenizers

_OPTIONAL = ("protect", "tags")
MANIFEST_NAME = "tokenizer.json"
MAX_TOKENIZER_BYTES = 1 << 28
"""Of a vocabulary or a model, many times the largest ones in use."""
Side = Literal["src", "tgt", "joint"]
# No other file is read or copied, whatever a manifest from elsewhere names.
FileName = Annotated[str, Field(pattern=r"^(src|tgt|joint)(\.[a-z]+)+$")]


class ManifestSection(BaseModel):
    """A part of tokenizer.json."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TokenizerManifest(ManifestSection):
    """The keys of tokenizer.json that all kinds have; a kind's own ones follow."""

    format: Literal[1] = 1
    lowercase: bool
    learned_from: str
    """SHA-256 of the training text that the tokenizers were learned from or are used with."""
    sha256: dict[FileName, str]
    protect: list[Protected] = []
    """Groups of placeholders that reserved tokens stand for."""
    tags: list[TagName] = []
    """Reserved tokens, in the order of their ids."""

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Checkpoints know their tokenizers by the bytes of tokenizer.json, which had no such keys.
        values: dict[str, Any] = dump(self)
        return {key: each for key, each in values.items() if each or key not in _OPTIONAL}

    @abstractmethod
    def load(self, directory: Path) -> Tokenizers:
        """Load the tokenizers of a directory, checking its files' SHA-256.

        Reserved tokens are added by ``tokenizer.load_tokenizers``.
        """

    def read_checked(self, path: Path) -> bytes:
        """Return a file's bytes, after comparing their SHA-256 with the manifest's.

        Raises:
            TokenizerError: the file is missing, or has changed since it was written.
        """
        data = read_tokenizer_file(path)
        if hashlib.sha256(data).hexdigest() != self.sha256.get(path.name):
            raise TokenizerError(
                f"{path}: changed since it was written (its SHA-256 differs from the one in "
                f"{MANIFEST_NAME}); restore the file, or learn the tokenizer again"
            )
        return data


@dataclass(frozen=True)
class TrainingText:
    """The text that tokenizers are learned from.

    Attributes:
        src_lang: language of the source, as in 'de'.
        tgt_lang: language of the target.
        src: the source side's lines.
        tgt: the target side's lines.
        sha256: SHA-256 of the text, recorded in the manifest.
        progress: wraps each pass over the lines, given a label, as tqdm would.
    """

    src_lang: str
    tgt_lang: str
    src: Lines
    tgt: Lines
    sha256: str
    progress: ProgressBar

    def sides(self, joint: bool) -> list[tuple[Side, Lines, str]]:
        """Return what to learn from: both sides as one, or each; with a label for messages."""
        if joint:
            return [("joint", BothSides(self.src, self.tgt), "training text")]
        return [("src", self.src, "source text"), ("tgt", self.tgt, "target text")]


def read_tokenizer_file(path: Path) -> bytes:
    """Return the bytes of a file in a tokenizer's directory.

    Raises:
        TokenizerError: it cannot be read.
    """
    try:
        return read_small(path, MAX_TOKENIZER_BYTES)
    except OSError as error:
        raise TokenizerError(
            f"{path}: cannot be read ({error.strerror}); restore it, as a model translates "
            "only with the tokenizer that it was trained with"
        ) from error
