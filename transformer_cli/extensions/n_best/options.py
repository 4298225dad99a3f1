"""Options of ``translate`` for writing several translations per line, and their scores."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.cli.declaring import AnyTranslator, ExtraOptions, flag, option
from transformer_cli.config.choices import LARGEST_BEAM

_MARKS = ("lines", "scores", ".jsonl")


@dataclass(frozen=True)
class ScoreOptions(ExtraOptions):
    """The options ``--n-best`` and ``--scores``, which write translations and scores as JSON."""

    heading = "Search"
    n_best: Annotated[
        int | None,
        option(
            "N",
            "Write the N best translations with scores, as JSON.",
            marks=_MARKS,
            min=1,
            max=LARGEST_BEAM,
        ),
    ] = None
    scores: Annotated[
        bool, flag("Write each translation with its score, as JSON.", "--scores", marks=_MARKS)
    ] = False

    @property
    def count(self) -> int | None:
        """Number of translations per line; None: write one translation, without its score."""
        return self.n_best or (1 if self.scores else None)

    def check(self, given: Any) -> None:
        """Raise UsageError if --beam-size is given and is smaller than --n-best."""
        n_best, beam_size = self.n_best, given.beam_size
        if n_best is not None and beam_size is not None and n_best > beam_size:
            raise UsageError(
                f"translate: a beam of {beam_size} cannot hold the {n_best} best; raise "
                "--beam-size, or leave it out"
            )

    def fingerprint(self) -> dict[str, str]:
        """Return the settings that affect the output; --scores counts as --n-best 1."""
        return ExtraOptions.fingerprint(replace(self, n_best=self.count, scores=False))

    def prepare(self, translator: AnyTranslator, given: Any) -> AnyTranslator:
        """Return a translator that finds and writes ``count`` translations per line."""
        if self.count is None:
            return translator
        from transformer_cli.extensions.n_best.json_lines import ScoringTranslator

        wide = translator.with_search(max(self.count, translator.decoding.beam_size))
        return wide.extended_by(ScoringTranslator, n_best=self.count)
