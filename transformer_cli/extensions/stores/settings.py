"""The settings of data that is downloaded."""

from typing import Literal

from transformer_cli.config.data_schema import GermanEnglish


class Multi30kData(GermanEnglish):
    """The Multi30k captions (task 1), downloaded and verified if they are not on disk."""

    kind: Literal["multi30k"]
