"""TMX: adds translations to tu elements that have the source language, but no translation yet."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.corpora.units import comparable_code
from transformer_cli.extensions.documents.document import Edit, Filling, Source
from transformer_cli.extensions.documents.xml import UNIT, Element, Kind, XmlDocument, write_text


class TmxDocument(XmlDocument):
    """A translation memory in the format TMX, whose segments are sources without translations."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        if self.root.name != "tmx":
            problem = f"not TMX: the outermost element is '{self.root.name[:40]}'"
            raise self.error(self.root.line, problem)
        units = [unit for body in self.root.all("body") for unit in body.all("tu")]
        comparable = comparable_code(source.languages)
        src, tgt = map(comparable, source.languages)
        codes = Counter(_language(variant) for unit in units for variant in unit.all("tuv"))
        if codes and src not in map(comparable, codes):
            named = (f"'{code[:20]}'" for code, _ in codes.most_common(5) if code)
            found = ", ".join(named) or "no language (tuv elements without xml:lang)"
            raise InputError(f"{self.name}: units in {found}, but the run translates from '{src}'")
        ours = (code for code, _ in codes.most_common() if comparable(code) == tgt)
        self._code = next(ours, source.languages[1])
        for unit in units:
            by_language: dict[str, Element] = {}
            for variant in unit.all("tuv"):
                by_language.setdefault(comparable(_language(variant)), variant)
            if src in by_language:
                self._add(unit, by_language[src], by_language.get(tgt))

    def _add(self, unit: Element, variant: Element, target: Element | None) -> None:
        source, there = variant.find("seg"), target and target.find("seg")
        if source is None or (target is not None and there is None):
            raise self.error(variant.line, "a tuv has no seg")
        segment = self.segment(source, {UNIT: True})
        is_open = self.lacks_text(segment, there, {UNIT: True})
        last, places = list(unit.all("tuv"))[-1], range(0)

        def write(fillings: Sequence[Filling]) -> list[Edit]:
            (filling,) = fillings
            written = f"<seg>{write_text(segment, filling.text)}</seg>"
            if filling.comment:
                written = f"<note>{escape(filling.comment)}</note>{written}"
            if there is not None:
                return [Edit(there.start, there.end, written)]
            attribute = "lang" if "lang" in variant.attributes else "xml:lang"
            tag = f'<tuv {attribute}={quoteattr(self._code)} creationtool="transformer-cli">'
            return [Edit(last.end, last.end, f"{self.indent(last)}{tag}{written}</tuv>")]

        if is_open and segment.text.strip():
            places = self.add_unit([segment], write)
        self.add_target(last.end, target, [source if is_open or not there else there], places)

    def kind(self, element: Element) -> Kind | Literal["pair"]:
        match element.name:
            case "hi":
                return "pair"
            case "bpt":
                return "open", element.attributes.get("i", "")
            case "ept":
                return "close", element.attributes.get("i", "")
        return "alone", ""


def _language(variant: Element) -> str:
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang", "")
