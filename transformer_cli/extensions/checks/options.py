"""Options for text that looks wrong, and for test pairs seen in training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, flag
from transformer_cli.cli.evaluate import EvaluateExtra, EvaluateOptions, ScoredText

with lazy_imports():
    from transformer_cli.extensions.checks import seen_pairs

if TYPE_CHECKING:
    from transformer_cli.inference.translation import Notes

AllowSuspectData = Annotated[
    bool,
    flag(
        "Continue even if the text looks wrong, e.g. if it is misaligned or has test pairs.",
        "--allow-suspect-data",
    ),
]


@dataclass(frozen=True)
class SuspectOptions(ExtraOptions):
    """The option to continue even if the text looks like a mistake."""

    heading = "Options"
    allow_suspect_data: AllowSuspectData = False


@dataclass(frozen=True)
class SeenOptions(EvaluateExtra):
    """The option to look for test pairs that were seen in training."""

    heading = "Search and scores"
    seen: Annotated[
        bool,
        flag("Find test pairs seen in training; also score the unseen pairs separately.", "--seen"),
    ] = False

    def notes(self, given: EvaluateOptions, scored: ScoredText) -> "Notes | None":
        """Return notes about pairs seen in training if ``--seen`` is given, else None."""
        return seen_pairs.SeenNotes(scored) if self.seen else None
