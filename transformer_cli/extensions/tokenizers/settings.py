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
        keys: dict[_Side, str] = {"joint": "", "src": "src_", "tgt": "tgt_"}
        paths = {side: getattr(self, f"{prefix}{self.file_key}") for side, prefix in keys.items()}
        return {side: path for side, path in paths.items() if path is not None}

    @property
    def one_vocabulary(self) -> bool:
        return "joint" in self.files

    @model_validator(mode="after")
    def _has_one_file_or_two(self) -> Self:
        key = self.file_key
        match [*self.files]:
            case []:
                text = type(self).model_fields[key].description
                raise ValueError(f"{key}: missing ({text})")
            case ["joint", side, *_]:
                both = f"{key} is for both sides; give {key}, or src_{key} and tgt_{key}"
                raise ValueError(f"{side}_{key}: {both}")
            case ["src" | "tgt" as side]:
                missing = "tgt" if side == "src" else "src"
                problem = f"missing, but {side}_{key} is set; give both, or {key}"
                raise ValueError(f"{missing}_{key}: {problem}")
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
