"""Search again if a translation lacks placeholders or terms of its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from transformer_cli.extensions.constraints.notes import ReservedNotes
from transformer_cli.inference.engine import Hypothesis
from transformer_cli.inference.translation import EncodedLine, Notes, Reviser, Translation
from transformer_cli.inference.translator import Watcher

if TYPE_CHECKING:
    from transformer_cli.extensions.constraints.reserved import ReservedTokenizers

SECOND_BEAM = 8
"""The beam size of the second search, unless the first search has a wider beam."""


@dataclass(frozen=True)
class ReservedReviser(Reviser):
    """A reviser that searches again if a translation has lost placeholders or terms."""

    tokenizers: "ReservedTokenizers"

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Watcher,
    ) -> list[list[Translation]]:
        """Where a piece of a line lost any, search again with a wider beam; keep what lost least.

        Lost terms count only in lines that are not split. N-best lists and samples are kept.
        """
        if (n_best or 1) > 1 or translator.sampler is not None:
            return found

        def count_losses(line: EncodedLine, ids: list[int], one: Hypothesis) -> tuple[int, ...]:
            whole = line.source if len(line.pieces) == 1 else None
            return self.tokenizers.count_losses_of_ids(ids, one.ids, whole)

        losing = [
            (place, number)
            for place, (line, (best, *_)) in enumerate(zip(lines, found, strict=True))
            for number, (ids, one) in enumerate(zip(line.pieces, best.pieces, strict=False))
            if any(count_losses(line, ids, one))
        ]
        if not losing:
            return found
        wider = translator.with_search(max(SECOND_BEAM, translator.decoding.beam_size))
        again = wider.search_pieces(
            [(lines[place], number) for place, number in losing], should_stop=watcher.should_stop
        )
        pieces = {place: list(found[place][0].pieces) for place, _ in losing}
        for (place, number), hypotheses in zip(losing, again, strict=True):
            line = lines[place]
            fewest = partial(count_losses, line, line.pieces[number])
            pieces[place][number] = min([pieces[place][number], *hypotheses], key=fewest)
        chosen = [(lines[place], tuple(of_line)) for place, of_line in pieces.items()]
        written = dict(zip(pieces, translator.write(chosen), strict=True))
        return [
            [written[place]] if place in written else ranked for place, ranked in enumerate(found)
        ]

    def notes(self) -> Notes:
        """Return notes about differing placeholders and lost terms."""
        own = self.tokenizers
        return ReservedNotes(own.protect, own.terms is not None, own.find_lost)
