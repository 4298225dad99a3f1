"""What ``evaluate`` says of text that was trained on, without an option for it."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions

with lazy_imports():
    from transformer_cli.extensions.checks import evaluation_note


@dataclass(frozen=True)
class SeenOptions(ExtraOptions):
    """Opens the note about pairs that were seen in training."""

    heading = "Search and scores"

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Any]":
        """Open what is noted of pairs that were seen in training."""
        return nullcontext(evaluation_note.SeenNotes(scored))
