"""Search again if a translation lacks placeholders, and note lost placeholders and terms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.constraints.terms import describe_kept
from transformer_cli.extensions.revision.doubts import name_lines
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
            own = self.tokenizers
            return own.src.count_slots(ids) != own.tgt.count_slots(one.ids)

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
        return ReservedNotes(self.tokenizers)


class ReservedNotes(Notes):
    """Notes about lines whose translation has different placeholders or lacks terms."""

    def __init__(self, tokenizers: "ReservedTokenizers") -> None:
        self._tokenizers = tokenizers
        self._differing: list[int] = []
        self._losing: list[int] = []
        self._terms = self._lost = 0

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterator[str]:
        tgt = found[0].text
        if not tgt and found[0].remark:
            return  # it was left out on purpose
        if difference := compare_placeholders(src, tgt, self._tokenizers.protect):
            self._differing.append(number)
            yield f"placeholders differ: {difference}"
        terms, lost = self._tokenizers.find_lost(src, tgt)
        self._terms += terms
        self._lost += len(lost)
        if lost:
            self._losing.append(number)
            yield f"terms lost: {', '.join(term.target for term in lost)}"

    def summary(self, lines: int) -> Iterator[str]:
        if self._differing:
            where = name_lines(self._differing)
            yield f"{len(self._differing):,} of {lines:,} lines: placeholders differ; {where}"
        if self._terms:
            where = f"; others are lost in {name_lines(self._losing)}" if self._lost else ""
            yield f"{describe_kept(self._terms, self._lost)}{where}"

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._tokenizers.protect:
            found["placeholders_differ"] = len(self._differing)
        if self._tokenizers.terms is not None:
            found["terms"] = {"found": self._terms, "kept": self._terms - self._lost}
        return found

    def rows(self) -> Iterator[tuple[str, str, str]]:
        if self._tokenizers.protect:
            differing = f"{len(self._differing):6,}"
            yield "placeholders", differing, "lines whose translation has other ones"
        if self._tokenizers.terms is not None:
            kept = (self._terms - self._lost) / max(1, self._terms)
            yield "terms", f"{kept:6.1%}", f"kept, of {self._terms:,} in the sources"
