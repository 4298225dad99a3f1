"""The option of ``evaluate`` that asks for COMET."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from transformer_cli.cli.declaring import ExtraOptions, flag

if TYPE_CHECKING:
    from transformer_cli.cli.evaluate import EvaluateOptions
    from transformer_cli.data.corpus import ParallelText
    from transformer_cli.extensions.comet.scoring_model import CometNote
    from transformer_cli.runs.directory import RunDirectory


@dataclass(frozen=True)
class CometOptions(ExtraOptions):
    """Whether COMET scores the translations too."""

    heading = "Search and scores"
    comet: Annotated[bool, flag("COMET too, if its package is installed.", "--comet")] = False


def open_comet(
    given: "EvaluateOptions", runs: "Sequence[RunDirectory]", name: str, text: "ParallelText"
) -> "CometNote | None":
    """Return COMET's score of a text; None: nobody asked for it."""
    if not given.extra(CometOptions).comet:
        return None
    from transformer_cli.extensions.comet.scoring_model import load_comet

    return load_comet(given.device, text)
