"""Search again if a translation lacks placeholders of its source."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    """A reviser that searches again if a translation has lost placeholders."""

    tokenizers: "ReservedTokenizers"

    def revise(
        self,
        translator: Any,
        lines: Sequence[EncodedLine],
        found: list[list[Translation]],
        n_best: int | None,
        watcher: Watcher,
    ) -> list[list[Translation]]:
        """Where a piece of a line lost any, search again with a wider beam.

        N-best lists and samples are kept.
        """
        if (n_best or 1) > 1 or translator.sampler is not None:
            return found

        def is_losing(ids: list[int], one: Hypothesis) -> bool:
            return not self.tokenizers.keeps_slots(ids, one.ids)

        losing = [
            (place, number)
            for place, (line, (best, *_)) in enumerate(zip(lines, found, strict=True))
            for number, (ids, one) in enumerate(zip(line.pieces, best.pieces, strict=False))
            if is_losing(ids, one)
        ]
        if not losing:
            return found
        wider = translator.with_search(max(SECOND_BEAM, translator.decoding.beam_size))
        again = wider.search_pieces(
            [(lines[place], number) for place, number in losing], should_stop=watcher.should_stop
        )
        pieces = {place: list(found[place][0].pieces) for place, _ in losing}
        for (place, number), hypotheses in zip(losing, again, strict=True):
            ids = lines[place].pieces[number]
            keeping = (one for one in hypotheses if not is_losing(ids, one))
            pieces[place][number] = next(keeping, pieces[place][number])
        chosen = [(lines[place], tuple(of_line)) for place, of_line in pieces.items()]
        written = dict(zip(pieces, translator.write(chosen), strict=True))
        return [
            [written[place]] if place in written else ranked for place, ranked in enumerate(found)
        ]

    def notes(self) -> Notes:
        """Return notes about differing placeholders and lost terms."""
        own = self.tokenizers
        return ReservedNotes(own.protect, own.terms is not None, own.find_lost)
