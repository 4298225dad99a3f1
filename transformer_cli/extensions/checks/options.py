"""What is done about text that looks mistaken, and what ``evaluate`` says of text trained on."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, flag

with lazy_imports():
    from transformer_cli.extensions.checks import evaluation_note

AllowSuspectData = Annotated[
    bool,
    flag(
        "Go on even where files can only be named by mistake: test text that is the training "
        "text, one file for source and target, sides shifted, or in each other's script.",
        "--allow-suspect-data",
    ),
]


@dataclass(frozen=True)
class SuspectOptions(ExtraOptions):
    """Whether the user insists on text that can only be a mistake."""

    heading = "Options"
    allow_suspect_data: AllowSuspectData = False


@dataclass(frozen=True)
class SeenOptions(ExtraOptions):
    """Opens the note about pairs that were seen in training."""

    heading = "Search and scores"

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Any]":
        """Open what is noted of pairs that were seen in training."""
        return nullcontext(evaluation_note.SeenNotes(scored))
