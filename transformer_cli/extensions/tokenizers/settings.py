"""The settings of tokenizers in Hugging Face's format."""

from typing import Literal, Self

from pydantic import model_validator

from transformer_cli.config.sections import FilePath, setting
from transformer_cli.config.tokenizer_schema import TokenizerSection


class HuggingFaceConfig(TokenizerSection):
    """A Hugging Face tokenizer.json made elsewhere: WordPiece, BPE or unigrams, say."""

    file_key = "file"

    kind: Literal["huggingface"]
    file: FilePath | None = setting(None, "path of a tokenizer.json for both sides")
    src_file: FilePath | None = setting(None, "the same for the source side only")
    tgt_file: FilePath | None = setting(None, "the same for the target side only")
    lowercase: bool = setting(
        False, "lowercase text before the file's own rules; validation uses lowercased BLEU"
    )

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if not self.files:
            raise ValueError("file: missing (path of a tokenizer.json for both sides)")
        return self
