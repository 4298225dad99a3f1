"""Manifests of kinds that keep one model file a side, or one for both."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from transformer_cli.errors import TokenizerError
from transformer_cli.files import read_small, whole_file
from transformer_cli.text.id_map import SpecialIds
from transformer_cli.text.manifest import (
    MAX_TOKENIZER_BYTES,
    Side,
    TokenizerManifest,
    TrainingText,
)
from transformer_cli.text.protocol import Tokenizer, Tokenizers


class SideFilesManifest(TokenizerManifest):
    """A manifest of model files, named by their side and ``suffix``."""

    suffix: ClassVar[str]

    @abstractmethod
    def open(self, data: bytes, path: Path, side: Side) -> Tokenizer:
        """Return the tokenizer of a model file's bytes."""

    def load(self, directory: Path) -> Tokenizers:
        """Load the tokenizers of a directory, checking its files' SHA-256."""
        if self.file_name("joint") in self.sha256:
            joint = self._load_side("joint", directory)
            return Tokenizers(src=joint, tgt=joint)
        return Tokenizers(
            src=self._load_side("src", directory), tgt=self._load_side("tgt", directory)
        )

    def _load_side(self, side: Side, directory: Path) -> Tokenizer:
        path = directory / self.file_name(side)
        return self.open(self.read_checked(path), path, side)

    @classmethod
    def file_name(cls, side: Side) -> str:
        """Return the name of a side's file in a tokenizer's directory."""
        return f"{side}.{cls.suffix}"

    @classmethod
    def write_files(cls, models: Iterable[tuple[Side, bytes]], directory: Path) -> dict[str, str]:
        """Write each side's model into ``directory``; return the SHA-256 of each file name."""
        sha256 = {}
        for side, data in models:
            name = cls.file_name(side)
            with whole_file(directory / name) as temporary:
                temporary.write_bytes(data)
            sha256[name] = hashlib.sha256(data).hexdigest()
        return sha256


class ImportedManifest(SideFilesManifest):
    """A manifest of model files made elsewhere, which have their special tokens anywhere.

    Attributes:
        specials: the ids of each file's special tokens.
    """

    specials: dict[Side, SpecialIds] = Field(min_length=1, max_length=2)

    @model_validator(mode="after")
    def _has_specials_of_files(self) -> Self:
        if {self.file_name(side) for side in self.specials} != self.sha256.keys():
            raise ValueError("specials: not of the files in sha256")
        return self

    @classmethod
    def copy_files(
        cls,
        files: Mapping[Side, Path],
        lowercase: bool,
        text: TrainingText,
        directory: Path,
        find_specials: Callable[[bytes, Path], SpecialIds],
    ) -> Self:
        """Copy model files into ``directory``, after ``find_specials`` has opened each.

        Raises:
            TokenizerError: a file cannot be read or used.
        """
        models = {side: read_configured_file(path) for side, path in files.items()}
        return cls(
            lowercase=lowercase,
            learned_from=text.sha256,
            specials={side: find_specials(models[side], files[side]) for side in files},
            sha256=cls.write_files(models.items(), directory),
        )


def read_configured_file(path: Path) -> bytes:
    """Return the bytes of a file that the configuration names.

    Raises:
        TokenizerError: it is missing, cannot be read, or is far too large.
    """
    try:
        return read_small(path, MAX_TOKENIZER_BYTES)
    except OSError as error:
        raise TokenizerError(
            f"{path}: cannot be read ({error.strerror}); the configuration names it as its "
            "tokenizer's file"
        ) from error
