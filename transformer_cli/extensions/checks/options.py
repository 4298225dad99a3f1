"""The option of ``evaluate`` about text that is near the training text."""

from dataclasses import dataclass
from typing import Annotated

from transformer_cli.cli.declaring import ExtraOptions, flag


@dataclass(frozen=True)
class NearOptions(ExtraOptions):
    """Whether to compare what is scored with the training text."""

    heading = "Search and scores"
    near: Annotated[
        bool, flag("Scores by nearness to the training text, which is read.", "--near")
    ] = False
