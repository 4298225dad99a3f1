"""XLIFF 1.2 and 2.x: fills targets that have no text or that request a new translation."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal
from xml.sax.saxutils import escape

from transformer_cli.config.languages import base_language
from transformer_cli.extensions.documents.document import Edit, Filling, Segment, Source
from transformer_cli.extensions.documents.xml import (
    UNIT,
    Element,
    Kind,
    Scopes,
    XmlDocument,
    says_translate,
    write_text,
)

_UNTRANSLATED_STATES = ("new", "needs-translation")
_STATES = {
    "model": {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"},
    "memory": {"state": "translated", "state-qualifier": "exact-match"},
}


class XliffDocument(XmlDocument):
    """An XLIFF file of version 1.2 or 2.x, whose segments are sources that need a translation."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        version = self.root.attributes.get("version", "")
        if self.root.name.rpartition(":")[2] != "xliff" or version[:2] not in ("1.", "2."):
            what = f"'{self.root.name[:40]}' of version '{version[:20]}'"
            raise self.error(
                self.root.line, f"not XLIFF 1.2 or 2.x: the outermost element is {what}"
            )
        self._notes: dict[Element, list[str]] = {}
        self._without_language: list[tuple[Element, str]] = []
        if version[0] == "1":
            for file in self.root.all("file"):
                self._check_languages(file, "source-language", "target-language")
                keeps_space = _keeps_space(file, _keeps_space(self.root))
                self._add_units(file, "trans-unit", self._add_unit_of_1, keeps_space)
        else:
            self._check_languages(self.root, "srcLang", "trgLang")
            self._add_units(self.root, "unit", self._add_unit_of_2, _keeps_space(self.root))

    def _check_languages(self, element: Element, *attributes: str) -> None:
        self.add_changing(element.start, element.content)
        whats = ("translates from", "translates into")
        for name, ours, what in zip(attributes, self.languages, whats, strict=True):
            theirs = element.attributes.get(name)
            if theirs is None and name == attributes[1]:
                self._without_language.append((element, name))
            elif base_language(theirs or ours) != base_language(ours):
                problem = f"{name} is '{(theirs or '')[:40]}', but the run {what} '{ours}'"
                raise self.error(element.line, problem)

    def _add_units(
        self,
        parent: Element,
        name: str,
        add: Callable[[Element, bool, bool], None],
        keeps_space: bool,
        translates: bool = True,
    ) -> None:
        """Add all units in an element; even one with translate="no" may have parts with "yes"."""
        for child in parent.all("body", "group", "file", name):
            says = says_translate(child)
            inherited = (_keeps_space(child, keeps_space), translates if says is None else says)
            if child.name.removeprefix(child.prefix) == name:
                add(child, *inherited)
            else:
                self._add_units(child, name, add, *inherited)

    def kind(self, element: Element) -> Kind | Literal["pair"]:
        attributes = element.attributes
        key = attributes.get("rid") or attributes.get("id", "")
        is_isolated = attributes.get("isolated") == "yes"
        match element.name.removeprefix(element.prefix):
            case "g" | "mrk" | "pc":
                return "pair"
            case "bpt" | "bx":
                return "open", key
            case "ept" | "ex":
                return "close", key
            case "sc" | "sm" if not is_isolated:
                return "open", key
            case "ec" | "em" if not is_isolated:
                return "close", attributes.get("startRef", "")
        return "alone", ""

    def final_edits(self, _: Sequence[Edit]) -> list[Edit]:
        """Return edits that add notes and missing target languages."""
        edits = [
            Edit(element.start, element.content, self.start_tag(element, {name: self.languages[1]}))
            for element, name in self._without_language
        ]
        for unit, notes in self._notes.items():
            name, there = f"{unit.prefix}notes", unit.find("notes")
            written = _write_notes(unit.prefix, notes)
            if there is None or there.is_empty:
                place = there or next(unit.all("originalData", "segment", "ignorable"))
                end = there.end if there else place.start
                edits.append(Edit(place.start, end, f"<{name}>{written}</{name}>"))
            else:
                edits.append(Edit(there.content, there.content, written))
        self._notes = {}
        return edits

    def _write_target(
        self, source: Element, target: Element | None, new: dict[str, str], content: str
    ) -> Edit:
        """Return an edit that writes a target element, whose attributes include ``new``."""
        name = f"{source.prefix}target"
        if target is not None:
            tag = self.start_tag(target, new)
            return Edit(target.start, target.end, f"{tag}{content}</{name}>")
        attributes = "".join(f' {key}="{value}"' for key, value in new.items())
        text = f"{self.indent(source)}<{name}{attributes}>{content}</{name}>"
        return Edit(source.end, source.end, text)

    # --- 1.2 --------------------------------------------------------------------------------------

    def _add_unit_of_1(self, unit: Element, keeps_space: bool, translates: bool) -> None:
        source, target, cut = map(unit.find, ("source", "target", "seg-source"))
        if source is None:
            raise self.error(unit.line, "a trans-unit has no source")
        for note in unit.all("note"):
            self.add_changing(note.start, note.end)
        elements = list(_segments_of(cut)) if cut else []
        there: list[Element | None] = _find_segments(target, elements) if elements else [target]
        holder = cut if cut and elements else source
        elements = elements or [source]
        keeps_space, scopes = _keeps_space(source, keeps_space), {UNIT: translates}
        segments = [self.segment(each, dict(scopes), keeps_space) for each in elements]
        pairs = zip(segments, there, strict=True)
        lacking = [self.lacks_text(segment, theirs, scopes) for segment, theirs in pairs]
        with_text = [n for n, one in enumerate(segments) if _has_text(one, translates)]
        missing = [n for n in with_text if lacking[n]]
        rewrites = False
        if unit.attributes.get("approved") == "yes" or not with_text:
            missing = []
        elif target and holder is cut and 0 < len(missing) < len(with_text):
            holder = target  # it contains translations by people
            if not all(there[n] for n in missing):
                self.leave(unit.line, "its target has no mrk for some of its segments")
        else:
            whole = self.segment(holder, dict(scopes))
            is_new = target and target.attributes.get("state") in _UNTRANSLATED_STATES
            rewrites = bool(is_new) or self.lacks_text(whole, target, scopes)
            missing = list(range(len(elements))) if rewrites else []
        into = there if holder is target else elements
        filled = [(one, segments[n]) for n in missing if (one := into[n])]
        filled.sort(key=lambda each: each[0].start)
        places = range(0)
        if filled:
            write = partial(self._write_unit_of_1, cut or source, target, holder, filled)
            places = self.add_unit([segment for _, segment in filled], write)
        texts = (
            ours if is_lacking or rewrites or not theirs else theirs
            for ours, theirs, is_lacking in zip(elements, there, lacking, strict=True)
        )
        self.add_target((cut or source).end, target, texts, places)

    def _write_unit_of_1(
        self,
        source: Element,
        target: Element | None,
        holder: Element,
        filled: Sequence[tuple[Element, Segment]],
        fillings: Sequence[Filling],
    ) -> list[Edit]:
        """Return edits that write a target element: ``holder``'s content with new translations."""
        content, place = "", holder.content
        for (element, segment), filling in zip(filled, fillings, strict=True):
            before, end = self.text[place : element.content], ""
            if element.is_empty:
                before, end = f"{before[:-2].rstrip()}>", f"</{element.name}>"
            content += f"{before}{write_text(segment, filling.text)}{end}"
            place = element.content_end
        content += self.text[place : holder.content_end]
        origins = {filling.origin for filling in fillings}
        new = _STATES["model" if "model" in origins else "memory"]
        written = self._write_target(source, target, new, content)
        notes = _write_notes(source.prefix, [one.comment for one in fillings if one.comment])
        return [written._replace(text=written.text + notes)]

    # --- 2.x --------------------------------------------------------------------------------------

    def _add_unit_of_2(self, unit: Element, keeps_space: bool, translates: bool) -> None:
        for notes in unit.all("notes"):
            self.add_changing(notes.start, notes.end)
        scopes = {UNIT: translates}  # an sm may end in a later segment
        for element in unit.all("segment", "ignorable"):
            if element.name.endswith("segment"):
                self._add_segment_of_2(unit, element, keeps_space, scopes)
            elif source := element.find("source"):
                self.segment(source, scopes)

    def _add_segment_of_2(
        self, unit: Element, element: Element, keeps_space: bool, scopes: Scopes
    ) -> None:
        source, target = element.find("source"), element.find("target")
        if source is None:
            raise self.error(element.line, "a segment has no source")
        innermost = next(reversed(scopes))  # many scopes may be open
        before = {UNIT: scopes[UNIT], innermost: scopes[innermost]}
        segment = self.segment(source, scopes, _keeps_space(source, keeps_space))
        is_initial = element.attributes.get("state") == "initial"
        is_open = is_initial or self.lacks_text(segment, target, before)

        def write(fillings: Sequence[Filling]) -> list[Edit]:
            (filling,) = fillings
            new = {"state": "translated", "subState": f"transformer-cli:{filling.origin}"}
            if filling.comment:
                self._notes.setdefault(unit, []).append(filling.comment)
            return [
                Edit(element.start, element.content, self.start_tag(element, new)),
                self._write_target(source, target, {}, write_text(segment, filling.text)),
            ]

        places = range(0)
        if is_open and _has_text(segment, before[UNIT]):
            places = self.add_unit([segment], write)
        self.add_changing(element.start, element.content)
        self.add_target(source.end, target, [source if is_open or not target else target], places)


def _write_notes(prefix: str, notes: Sequence[str]) -> str:
    return "".join(f"<{prefix}note>{escape(note)}</{prefix}note>" for note in notes)


def _has_text(segment: Segment, translates: bool) -> bool:
    """Return whether a segment has letters or, if ``translates``, whether it is not blank."""
    return bool(segment.text.strip()) if translates else segment.has_letters


def _keeps_space(element: Element, inherited: bool = False) -> bool:
    space = element.attributes.get("xml:space")
    return space == "preserve" if space else inherited


def _segments_of(element: Element) -> Iterator[Element]:
    """Yield the outermost segments (elements with ``mtype="seg"``) in an element."""
    for child in element.children:
        if child.attributes.get("mtype") == "seg":
            yield child
        else:
            yield from _segments_of(child)


def _find_segments(target: Element | None, elements: Sequence[Element]) -> list[Element | None]:
    """Return, for each segment of a seg-source, the target's segment with the same ID, or None."""
    found = {each.attributes.get("mid"): each for each in _segments_of(target)} if target else {}
    ids = [element.attributes.get("mid") for element in elements]
    is_one = Counter(ids)
    return [found.get(each) if is_one[each] == 1 else None for each in ids]
