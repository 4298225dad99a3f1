"""XLIFF 1.2 and 2.x: units without a translation, or with one that is to be made anew."""

from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape

from transformer_cli.data.readers.units import primary_language
from transformer_cli.documents.document import Edit, Filling, Segment, Source
from transformer_cli.documents.markup import Element, Kind, XmlDocument, write_text

_UNTRANSLATED_STATES = ("new", "needs-translation")
_QUALIFIERS = {"model": "mt-suggestion", "memory": "exact-match"}
_XML_SPACE = "xml:space"


class XliffDocument(XmlDocument):
    """An XLIFF file, of the version that it says."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        version = self.root.attributes.get("version", "")
        if self.root.name.rpartition(":")[2] != "xliff" or version[:2] not in ("1.", "2."):
            what = f"'{self.root.name[:40]}' of version '{version[:20]}'"
            raise self.error(self.root, f"not XLIFF 1.2 or 2.x: the outermost element is {what}")
        self._notes: dict[Element, list[str]] = {}
        self._without_language: list[tuple[Element, str]] = []
        if version[0] == "1":
            for file in self.root.all("file"):
                self._check_languages(file, "source-language", "target-language")
                self._add_units(file, ("trans-unit",), self._add_unit_of_1)
        else:
            self._check_languages(self.root, "srcLang", "trgLang")
            self._add_units(self.root, ("unit",), self._add_unit_of_2)

    def _check_languages(self, element: Element, *attributes: str) -> None:
        whats = ("translates from", "translates into")
        for name, ours, what in zip(attributes, self.languages, whats, strict=True):
            theirs = element.attributes.get(name)
            if theirs is None and name == attributes[1]:
                self._without_language.append((element, name))
            elif primary_language(theirs or ours) != primary_language(ours):
                problem = f"{name} is '{(theirs or '')[:40]}', but the run {what} '{ours}'"
                raise self.error(element, problem)

    def _add_units(
        self,
        parent: Element,
        names: Sequence[str],
        add: Callable[[Element, bool], None],
        keeps_space: bool = False,
    ) -> None:
        """Add all units below an element that are to be translated."""
        for child in parent.all("body", "group", "file", *names):
            if child.attributes.get("translate") == "no":
                continue
            space = child.attributes.get(_XML_SPACE)
            keeps = space == "preserve" if space else keeps_space
            if child.name.removeprefix(child.prefix) in names:
                add(child, keeps)
            else:
                self._add_units(child, names, add, keeps)

    def _needs_text(self, target: Element | None) -> bool:
        return target is None or (not target.children and not self.inner(target).strip())

    def final_edits(self) -> list[Edit]:
        """Return the target's language where there is none, and notes."""
        edits = [
            Edit(element.start, element.content, self.start_tag(element, {name: self.languages[1]}))
            for element, name in self._without_language
        ]
        for unit, notes in self._notes.items():
            prefix, there = unit.prefix, unit.find("notes")
            written = "".join(f"<{prefix}note>{escape(n)}</{prefix}note>" for n in notes)
            if there is None or there.is_empty:
                place = there or next(unit.all("originalData", "segment", "ignorable"))
                end = there.end if there else place.start
                written = f"<{prefix}notes>{written}</{prefix}notes>"
                edits.append(Edit(place.start, end, written))
            else:
                edits.append(Edit(there.content, there.content, written))
        self._notes = {}
        return edits

    def _target(self, source: Element, target: Element | None, new: dict[str, str]) -> Edit:
        """Return where a translation goes and its element, with NUL for what is in it."""
        name = f"{source.prefix}target"
        if target is not None:
            tag = self.start_tag(target, new)
            return Edit(target.start, target.end, f"{tag}\0</{name}>")
        attributes = "".join(f' {key}="{value}"' for key, value in new.items())
        text = f"{self.indent(source)}<{name}{attributes}>\0</{name}>"
        return Edit(source.end, source.end, text)

    # --- 1.2 --------------------------------------------------------------------------------------

    def _add_unit_of_1(self, unit: Element, keeps_space: bool) -> None:
        source, target, cut = map(unit.find, ("source", "target", "seg-source"))
        if source is None:
            raise self.error(unit, "a trans-unit without a source")
        is_new = target is not None and target.attributes.get("state") in _UNTRANSLATED_STATES
        is_open = unit.attributes.get("approved") != "yes" and (is_new or self._needs_text(target))
        base = cut if cut is not None and next(_segments_of(cut), None) else source
        elements = list(_segments_of(base)) if base is cut else [source]
        segments = [self.segment(each, _kind_of_1, keeps_space) for each in elements]
        if not is_open or not any(segment.text.strip() for segment in segments):
            return

        def write(fillings: Sequence[Filling]) -> list[Edit]:
            content, place = "", base.content
            for element, segment, filling in zip(elements, segments, fillings, strict=True):
                content += self.text[place : element.content] + write_text(segment, filling.text)
                place = element.content_end
            content += self.text[place : base.content_end]
            origins = {filling.origin for filling in fillings}
            qualifier = _QUALIFIERS["model" if "model" in origins else "memory"]
            new = {"state": "needs-review-translation", "state-qualifier": qualifier}
            start, end, text = self._target(cut or source, target, new)
            notes = (escape(filling.comment) for filling in fillings if filling.comment)
            name = f"{unit.prefix}note"
            text = text.replace("\0", content) + "".join(f"<{name}>{n}</{name}>" for n in notes)
            return [Edit(start, end, text)]

        self.add_unit(segments, write)

    # --- 2.x --------------------------------------------------------------------------------------

    def _add_unit_of_2(self, unit: Element, keeps_space: bool) -> None:
        for element in unit.all("segment"):
            source, target = element.find("source"), element.find("target")
            if source is None:
                raise self.error(element, "a segment without a source")
            is_initial = element.attributes.get("state") == "initial"
            segment = self.segment(source, _kind_of_2, keeps_space)
            if segment.text.strip() and (is_initial or self._needs_text(target)):
                write = self._writer_of_2(unit, element, source, target, segment)
                self.add_unit([segment], write)

    def _writer_of_2(
        self,
        unit: Element,
        element: Element,
        source: Element,
        target: Element | None,
        segment: Segment,
    ) -> Callable[[Sequence[Filling]], list[Edit]]:
        def write(fillings: Sequence[Filling]) -> list[Edit]:
            (filling,) = fillings
            start, end, text = self._target(source, target, {})
            new = {"state": "translated", "subState": f"transformer-cli:{filling.origin}"}
            if filling.comment:
                self._notes.setdefault(unit, []).append(filling.comment)
            return [
                Edit(element.start, element.content, self.start_tag(element, new)),
                Edit(start, end, text.replace("\0", write_text(segment, filling.text))),
            ]

        return write


def _segments_of(element: Element) -> Iterator[Element]:
    """Yield the outermost segments of a seg-source."""
    for child in element.children:
        if child.attributes.get("mtype") == "seg":
            yield child
        else:
            yield from _segments_of(child)


def _kind_of_1(element: Element) -> Kind:
    attributes = element.attributes
    key = attributes.get("rid") or attributes.get("id", "")
    match element.name.removeprefix(element.prefix):
        case "mrk" if attributes.get("mtype") == "protected":
            return "alone", ""
        case "g" | "mrk":
            return "pair", ""
        case "bpt" | "bx":
            return "open", key
        case "ept" | "ex":
            return "close", key
    return "alone", ""


def _kind_of_2(element: Element) -> Kind:
    attributes = element.attributes
    is_isolated = attributes.get("isolated") == "yes"
    match element.name.removeprefix(element.prefix):
        case "pc":
            return "pair", ""
        case "mrk" if attributes.get("translate") != "no":
            return "pair", ""
        case "sc" | "sm" if not is_isolated:
            return "open", attributes.get("id", "")
        case "ec" | "em" if not is_isolated:
            return "close", attributes.get("startRef", "")
    return "alone", ""
