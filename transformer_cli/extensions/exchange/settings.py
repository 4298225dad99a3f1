"""The settings for the data and the tokenizers of imported models."""

from typing import Literal

from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.sections import setting
from transformer_cli.config.tokenizer_schema import TokenizerSection


class ImportedData(DataSection):
    """An imported model, which has languages but no text."""

    kind: Literal["imported"]


class MarianConfig(TokenizerSection):
    """The tokenizers of an imported Marian model: SentencePiece models and tables of ids."""

    kind: Literal["marian"]
    joint: bool = setting(True, "whether both sides share one table of ids")

    @property
    def lowercase(self) -> bool:
        return False
