"""The options ``--alignments`` and ``--replace-unk`` of ``translate``."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, flag, option
from transformer_cli.cli.options import prefix_errors

with lazy_imports():
    from transformer_cli.extensions.alignments import aligning


@dataclass(frozen=True)
class AlignmentOptions(ExtraOptions):
    """Options for writing word alignments and for replacing unknown words."""

    heading = "Alignments"
    # Only torch shows where a model attends.
    alignments: Annotated[
        Path | None,
        option("FILE", "Write word alignments, e.g. 0-0 1-2.", marks=("writes", "torch", "lines")),
    ] = None
    replace_unk: Annotated[
        bool,
        flag(
            "Replace unknown words with the aligned source words.",
            "--replace-unk",
            marks=("torch",),
        ),
    ] = False

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that aligns words, replaces unknown words, or does both."""
        if self.replace_unk:
            with prefix_errors("--replace-unk: ", "; leave it out"):
                translator = aligning.with_unk_replacement(translator)
        if self.alignments is None:
            return translator
        revisers = (*translator.revisers, aligning.LinksWriter(self.alignments))
        return aligning.with_alignments(replace(translator, revisers=revisers))
