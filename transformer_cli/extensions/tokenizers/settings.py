"""The settings of tokenizers whose files were made elsewhere."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from transformer_cli.config.sections import FilePath, setting
from transformer_cli.config.tokenizer_schema import TokenizerSection

_Side = Literal["src", "tgt", "joint"]


class FilesSection(TokenizerSection):
    """The settings of a tokenizer kind that copies one file for both sides, or one per side."""

    file_key: ClassVar[str]
    """The key of the file for both sides; with the prefix ``src_`` or ``tgt_``, for one side."""

    @property
    def files(self) -> dict[_Side, Path]:
        """The files to copy, keyed by side: 'src' and 'tgt', or 'joint' for both."""
        key = self.file_key
        sides: tuple[_Side, ...] = ("src", "tgt")
        paths = {side: getattr(self, f"{side}_{key}") for side in sides}
        given = [side for side in sides if paths[side] is not None]
        joint: Path | None = getattr(self, key)
        if joint is not None and given:
            raise ValueError(
                f"{given[0]}_{key}: {key} is for both sides; give {key}, or src_{key} and tgt_{key}"
            )
        if len(given) == 1:
            (missing,) = set(sides) - set(given)
            one_side = f"but {given[0]}_{key} is set"
            raise ValueError(f"{missing}_{key}: missing, {one_side}; give both, or {key}")
        if joint is not None:
            return {"joint": joint}
        return {side: paths[side] for side in given}

    @property
    def one_vocabulary(self) -> bool:
        return "joint" in self.files

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if not self.files:
            text = type(self).model_fields[self.file_key].description
            raise ValueError(f"{self.file_key}: missing ({text})")
        return self


class SentencePieceFileConfig(FilesSection):
    """A SentencePiece model made elsewhere."""

    file_key = "model"

    kind: Literal["sentencepiece_file"]
    model: FilePath | None = setting(None, "path of a SentencePiece model for both sides")
    src_model: FilePath | None = setting(None, "the same for the source side only")
    tgt_model: FilePath | None = setting(None, "the same for the target side only")
    lowercase: bool = setting(False, "lowercase both sides, including translations")


class HuggingFaceConfig(FilesSection):
    """A Hugging Face tokenizer.json made elsewhere, e.g. WordPiece or BPE."""

    file_key = "file"

    kind: Literal["huggingface"]
    file: FilePath | None = setting(None, "path of a tokenizer.json for both sides")
    src_file: FilePath | None = setting(None, "the same for the source side only")
    tgt_file: FilePath | None = setting(None, "the same for the target side only")
    lowercase: bool = setting(
        False, "lowercase text before the file's own rules; validation uses lowercased BLEU"
    )
