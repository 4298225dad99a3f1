"""The settings of these kinds of tokenizers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from transformer_cli.config.sections import Count, FilePath, setting
from transformer_cli.config.tokenizer_schema import TokenizerSection


class WordPieceConfig(TokenizerSection):
    """WordPiece, BERT's kind of subwords, learned from the training text; keeps spaces."""

    kind: Literal["wordpiece"]
    vocab_size: Annotated[int, Field(ge=8, lt=2**31)] = setting(
        8000, "maximum vocabulary size, the four special tokens included"
    )
    joint: bool = setting(True, "one vocabulary for both sides")
    normalization: Literal["nfc", "nfkc", "identity"] = setting(
        "nfc",
        "how characters are unified; nfc: equal spellings and white space; nfkc also turns ⁶ into "
        "6 and ½ into 1⁄2; identity: not at all",
    )
    min_frequency: Count = setting(2, "minimum frequency of characters and merges")
    lowercase: bool = setting(False, "lowercase both sides, output included")
    strip_accents: bool = setting(False, "strip accents on both sides, output included")


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
