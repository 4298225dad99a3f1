"""A tokenizer's directory: its files, and a tokenizer.json that tells how to use them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from transformer_cli.errors import TokenizerError
from transformer_cli.files import sha256
from transformer_cli.text.lines import Lines, Progress

DESCRIPTION = "tokenizer.json"
# Nothing else is read or copied, whatever a description from elsewhere says.
FileName = Annotated[
    str, Field(pattern=r"^((src|tgt)\.vocab\.txt|(src|tgt|joint)\.(model|tokenizer\.json))$")
]


class Part(BaseModel):
    """A part of tokenizer.json."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Description(Part):
    """What tokenizer.json says, whatever the kind: its own keys come after these."""

    format: Literal[1] = 1
    lowercase: bool
    learned_from: str
    """The ``text_sha256`` of the training text, or of the one that they were adopted for."""
    sha256: dict[FileName, str]

    def verified(self, path: Path) -> bytes:
        """A file's bytes, if their sum is the one that is described.

        Raises:
            TokenizerError: the file is missing, or is not as it was written.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise TokenizerError(unreadable(path, error)) from error
        if hashlib.sha256(data).hexdigest() != self.sha256.get(path.name):
            raise TokenizerError(
                f"{path}: not as it was written (its SHA-256 differs from the one in "
                f"{DESCRIPTION}); restore the file, or learn the tokenizer again"
            )
        return data


@dataclass(frozen=True)
class TrainingText:
    """What tokenizers are learned from.

    Attributes:
        src_lang: language of the source, as in 'de'.
        tgt_lang: language of the target.
        src: the source side's lines.
        tgt: the target side's lines.
        text_sha256: their SHA-256, which ``load_text_sha256`` gives later.
        progress: wraps each pass over the lines, given a label, as tqdm would.
    """

    src_lang: str
    tgt_lang: str
    src: Lines
    tgt: Lines
    text_sha256: str
    progress: Progress


def sums(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of files, by their names."""
    return {name: sha256(directory / name) for name in names}


def unreadable(path: Path, error: OSError) -> str:
    """The message that one of a tokenizer's files cannot be read."""
    return f"{path}: cannot be read ({error.strerror}); is this a tokenizer's directory?"
