"""Options of ``translate`` for which words are aligned."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, flag, option
from transformer_cli.cli.options import prefix_errors

with lazy_imports():
    from transformer_cli.extensions.alignments import aligning, links_file, unknown_words

if TYPE_CHECKING:
    from transformer_cli.inference.translation import Notes


@dataclass(frozen=True)
class AlignmentOptions(ExtraOptions):
    """What is done with alignments."""

    heading = "Alignments"
    # Only torch tells what a model has attended to.
    alignments: Annotated[
        Path | None,
        option("FILE", "Write word alignments, as in 0-0 1-2.", use="writes", needs_torch=True),
    ] = None
    replace_unk: Annotated[
        bool, flag("Copy source words for unknown ones.", "--replace-unk", needs_torch=True)
    ] = False

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that aligns words, or copies unknown ones."""
        if self.replace_unk:
            with prefix_errors("--replace-unk: ", "; leave it out"):
                translator = unknown_words.with_unk_replacement(translator)
        return translator if self.alignments is None else aligning.with_alignments(translator)

    def open_notes(self, given: Any, scored: Any = None) -> "AbstractContextManager[Notes | None]":
        """Open the file of alignments, which appears only if the block succeeds."""
        return nullcontext() if self.alignments is None else links_file.open_links(self.alignments)
