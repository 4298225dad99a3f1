"""Notes about placeholders and terms that translations change or lack."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.constraints.terms import Term, describe_kept
from transformer_cli.extensions.revision.doubts import name_lines
from transformer_cli.extensions.verbatim.verbatim_parts import Group
from transformer_cli.inference.translation import Notes, Translation


class ReservedNotes(Notes):
    """Notes about lines whose translation has different placeholders or lacks terms.

    ``find_lost`` returns how many terms a line has, and which of them its translation lacks.
    """

    def __init__(
        self,
        protect: Collection[Group],
        has_terms: bool,
        find_lost: Callable[[str, str], tuple[int, list[Term]]],
    ) -> None:
        self._protect = protect
        self._has_terms = has_terms
        self._find_lost = find_lost
        self._differing: list[int] = []
        self._losing: list[int] = []
        self._terms = self._lost = 0

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterator[str]:
        tgt = found[0].text
        if not tgt and found[0].remark:
            return  # it was left out on purpose
        difference = compare_placeholders(src, tgt, self._protect)
        if difference:
            self._differing.append(number)
            yield f"placeholders differ: {difference}"
        terms, lost = self._find_lost(src, tgt)
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
        terms = {"found": self._terms, "kept": self._terms - self._lost}
        return {
            **({"placeholders_differ": len(self._differing)} if self._protect else {}),
            **({"terms": terms} if self._has_terms else {}),
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        if self._protect:
            differing = f"{len(self._differing):6,}"
            yield "placeholders", differing, "lines whose translation has other ones"
        if self._has_terms:
            kept = (self._terms - self._lost) / max(1, self._terms)
            yield "terms", f"{kept:6.1%}", f"kept, of {self._terms:,} in the sources"
