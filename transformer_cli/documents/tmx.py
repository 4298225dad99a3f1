"""TMX: units in the source language get a translation where they have none."""

from collections import Counter
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.data.readers.units import primary_language
from transformer_cli.documents.document import Edit, Filling, Segment, Source
from transformer_cli.documents.markup import Element, Kind, XmlDocument, write_text
from transformer_cli.errors import InputError


class TmxDocument(XmlDocument):
    """A translation memory."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        if self.root.name != "tmx":
            problem = f"not TMX: the outermost element is '{self.root.name[:40]}'"
            raise self.error(self.root, problem)
        units = [unit for body in self.root.all("body") for unit in body.all("tu")]
        src, tgt = map(primary_language, source.languages)
        codes = Counter(_language(variant) for unit in units for variant in unit.all("tuv"))
        if codes and src not in map(primary_language, codes):
            told = (f"'{code[:20]}'" for code, _ in codes.most_common(5) if code)
            found = ", ".join(told) or "no language (tuv elements without xml:lang)"
            raise InputError(f"{self.name}: units in {found}, but the run translates from '{src}'")
        ours = (code for code, _ in codes.most_common() if primary_language(code) == tgt)
        self._code = next(ours, source.languages[1])
        for unit in units:
            by_language: dict[str, Element] = {}
            for variant in unit.all("tuv"):
                by_language.setdefault(primary_language(_language(variant)), variant)
            if src in by_language:
                self._add(unit, by_language[src], by_language.get(tgt))

    def _add(self, unit: Element, variant: Element, target: Element | None) -> None:
        source, there = variant.find("seg"), target and target.find("seg")
        if source is None or (target is not None and there is None):
            raise self.error(variant, "a tuv without its seg")
        if there is not None and (there.children or self.inner(there).strip()):
            return
        segment = self.segment(source, _kind)
        if segment.text.strip():
            self.add_unit([segment], self._writer(unit, variant, there, segment))

    def _writer(
        self, unit: Element, variant: Element, there: Element | None, segment: Segment
    ) -> Callable[[Sequence[Filling]], list[Edit]]:
        def write(fillings: Sequence[Filling]) -> list[Edit]:
            (filling,) = fillings
            written = f"<seg>{write_text(segment, filling.text)}</seg>"
            if filling.comment:
                written = f"<note>{escape(filling.comment)}</note>{written}"
            if there is not None:
                return [Edit(there.start, there.end, written)]
            attribute = "lang" if "lang" in variant.attributes else "xml:lang"
            last = list(unit.all("tuv"))[-1]
            tag = f'<tuv {attribute}={quoteattr(self._code)} creationtool="transformer-cli">'
            return [Edit(last.end, last.end, f"{self.indent(last)}{tag}{written}</tuv>")]

        return write


def _language(variant: Element) -> str:
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang", "")


def _kind(element: Element) -> Kind:
    match element.name:
        case "hi":
            return "pair", ""
        case "bpt":
            return "open", element.attributes.get("i", "")
        case "ept":
            return "close", element.attributes.get("i", "")
    return "alone", ""
