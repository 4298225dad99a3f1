"""The option of ``evaluate`` that asks for COMET."""

from dataclasses import dataclass
from typing import Annotated

from transformer_cli.cli.declaring import ExtraOptions, flag


@dataclass(frozen=True)
class CometOptions(ExtraOptions):
    """Whether COMET scores the translations too."""

    heading = "Search and scores"
    comet: Annotated[bool, flag("COMET too, if its package is installed.", "--comet")] = False
