"""TMX and XLIFF: XML with the place of each element, so that what is filled goes between the bytes.

Expat reads it: no entities of a file's own, nothing from elsewhere, and bounds on all it keeps. In
TMX, units in the source language get a translation where they have none; in XLIFF 1.2 and 2.x, also
where there is one that is to be made anew.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.data.readers.units import comparable_code, primary_language
from transformer_cli.documents.document import (
    Edit,
    Filling,
    Segment,
    Source,
    Tag,
    TextDocument,
    join_lines,
)
from transformer_cli.errors import InputError

_DECLARED = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_START_TAG = re.compile(r"""<[^\s/>"']++(?:"[^"]*+"|'[^']*+'|[^"'>]++)*+>""")
_ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(\w+));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_INNER = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[(?P<literal>.*?)(?:\]\]>|\Z)", re.DOTALL
)
_MAX_ELEMENTS = 1_000_000
_MAX_DEPTH = 100
_UNTRANSLATED_STATES = ("new", "needs-translation")  # of XLIFF
_QUALIFIERS = {"model": "mt-suggestion", "memory": "exact-match"}

Kind = tuple[Literal["pair", "open", "close", "alone"], str]
"""What an inline element is, and the key that it shares with its other half."""


@dataclass(eq=False)
class Element:
    """An element, by its offsets in the text."""

    name: str
    attributes: dict[str, str]
    line: int
    start: int
    content: int
    """Behind its start tag."""
    content_end: int = 0
    end: int = 0
    children: list["Element"] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if it is one tag."""
        return self.content == self.end

    @property
    def prefix(self) -> str:
        """Prefix of its name, with the colon."""
        return self.name[: self.name.rfind(":") + 1]

    def find(self, local: str) -> "Element | None":
        """Return the first child of a name, in the same name space."""
        return next(self.all(local), None)

    def all(self, *local: str) -> Iterator["Element"]:
        """Yield the children of these names, in the same name space."""
        names = [f"{self.prefix}{name}" for name in local]
        return (child for child in self.children if child.name in names)


class XmlDocument(TextDocument):
    """An XML file whose format says which elements are segments."""

    def __init__(self, source: Source) -> None:
        declared = _DECLARED.match(source.data.removeprefix(b"\xef\xbb\xbf"))
        named = declared[1].decode() if declared else "utf-8"
        super().__init__(source, named)
        self.root = _Parser(self.text, self.name).root

    def error(self, element: Element, problem: str) -> InputError:
        """Return an error about an element."""
        return InputError(f"{self.name}:{element.line}: {problem}")

    def inner(self, element: Element) -> str:
        """Return what is between an element's tags."""
        return self.text[element.content : element.content_end]

    def start_tag(self, element: Element, attributes: Mapping[str, str]) -> str:
        """Return an element's start tag with attributes set, and not closed at once."""
        tag = self.text[element.start : element.content - 1].removesuffix("/").rstrip()
        for name, value in attributes.items():
            written = f" {name}={quoteattr(value)}"
            there = (match for match in _ATTRIBUTE.finditer(tag) if match[1] == name)
            match = next(there, None)
            start, end = match.span() if match else (len(tag), len(tag))
            tag = tag[:start] + written + tag[end:]
        return f"{tag}>"

    def indent(self, element: Element) -> str:
        """Return the white space before an element."""
        start = element.start
        while self.text[start - 1].isspace():
            start -= 1
        return self.text[start : element.start] if self.text[start - 1] == ">" else ""

    def segment(
        self, element: Element, kind: Callable[[Element], Kind], keeps_space: bool = False
    ) -> Segment:
        """Return an element's content as a segment; ``kind`` tells what its children are."""
        text, tags = "", list[Tag]()
        for piece, is_tag, (how, key) in self._pieces(element, kind):
            if is_tag:
                half = "open" if how == "pair" else how
                tags.append(Tag(len(text), len(text) + len(piece), half, key))
            elif not keeps_space:
                piece = join_lines(piece)
            text += piece
        return Segment(text, f"{self.name}:{element.line}", tuple(tags))

    def _pieces(
        self, element: Element, kind: Callable[[Element], Kind]
    ) -> Iterator[tuple[str, bool, Kind]]:
        """Yield text without escapes, and tags as they stand."""
        place = element.content
        for child in element.children:
            yield from _read_text(self.text[place : child.start])
            how, key = kind(child)
            if how == "pair" and not child.is_empty:
                key = f"{child.name} {child.start}"
                yield self.text[child.start : child.content], True, ("open", key)
                yield from self._pieces(child, kind)
                yield self.text[child.content_end : child.end], True, ("close", key)
            else:
                how = "alone" if how == "pair" else how
                yield self.text[child.start : child.end], True, (how, key)
            place = child.end
        yield from _read_text(self.text[place : element.content_end])


def write_text(segment: Segment, text: str) -> str:
    """Return a translation as it stands in XML, with the segment's tags."""
    parts = segment.split(text)
    parts[::2] = [escape(part).replace("\r", "&#13;") for part in parts[::2]]
    return "".join(parts)


def _read_text(raw: str) -> Iterator[tuple[str, bool, Kind]]:
    """Yield text, and comments and the like as tags."""
    alone: Kind = ("alone", "")
    place = 0
    for match in _INNER.finditer(raw):
        yield _unescape(raw[place : match.start()]), False, alone
        literal = match["literal"]
        yield (
            (match[0], True, alone) if literal is None else (_read_line_ends(literal), False, alone)
        )
        place = match.end()
    yield _unescape(raw[place:]), False, alone


def _read_line_ends(raw: str) -> str:
    return raw.replace("\r\n", "\n").replace("\r", "\n") if "\r" in raw else raw


def _unescape(raw: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        decimal, hexadecimal, name = match.groups()
        if name:
            return _NAMED.get(name, match[0])
        return chr(int(decimal) if decimal else int(hexadecimal, 16))

    raw = _read_line_ends(raw)
    return _REFERENCE.sub(unescape, raw) if "&" in raw else raw


class _Parser:
    """Expat's events turned into elements."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._stack: list[Element] = []
        self._count = 0
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.specified_attributes = True  # no defaults, which would be in each element
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        parser.SkippedEntityHandler = self._refuse_entity
        try:
            # A byte for each character, so that offsets are those of the text; no name or attribute
            # that is looked for has other letters.
            parser.Parse(re.sub(r"[^\x00-\x7f]", "x", text.removeprefix("\ufeff")).encode(), True)
        except expat.ExpatError as error:
            raise self._error(f"invalid XML ({expat.ErrorString(error.code)})") from error

    def _offset(self) -> int:
        return self._parser.CurrentByteIndex + self._text.startswith("\ufeff")

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self._name}:{self._parser.ErrorLineNumber}: {problem}")

    def _refuse_entity(self, name: str, *_: object) -> None:
        problem = f"the entity '{name[:40]}'; a file with entities of its own is not read"
        raise self._error(problem)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > _MAX_ELEMENTS:
            raise self._error(f"more than {_MAX_ELEMENTS:,} elements; split the file")
        if len(self._stack) > _MAX_DEPTH:
            raise self._error(f"elements that are nested more than {_MAX_DEPTH} deep")
        start = self._offset()
        tag = _START_TAG.match(self._text, start)
        if tag is None:
            raise self._error(f"a tag of '{name[:40]}' that cannot be read")
        line = self._parser.CurrentLineNumber
        element = Element(name, attributes, line, start, tag.end())
        if self._stack:
            self._stack[-1].children.append(element)
        else:
            self.root = element
        self._stack.append(element)

    def _end(self, _: str) -> None:
        element = self._stack.pop()
        if self._text[element.content - 2] == "/":
            element.content_end = element.end = element.content
        else:
            element.content_end = self._offset()
            element.end = self._text.index(">", element.content_end) + 1


# --- TMX ------------------------------------------------------------------------------------------


class TmxDocument(XmlDocument):
    """A translation memory."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        if self.root.name != "tmx":
            problem = f"not TMX: the outermost element is '{self.root.name[:40]}'"
            raise self.error(self.root, problem)
        units = [unit for body in self.root.all("body") for unit in body.all("tu")]
        comparable = comparable_code(source.languages)
        src, tgt = map(comparable, source.languages)
        codes = Counter(_language(variant) for unit in units for variant in unit.all("tuv"))
        if codes and src not in map(comparable, codes):
            told = (f"'{code[:20]}'" for code, _ in codes.most_common(5) if code)
            found = ", ".join(told) or "no language (tuv elements without xml:lang)"
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
            raise self.error(variant, "a tuv without its seg")
        if there is not None and (there.children or self.inner(there).strip()):
            return
        segment = self.segment(source, _kind_of_tmx)

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

        if segment.text.strip():
            self.add_unit([segment], write)


def _language(variant: Element) -> str:
    return variant.attributes.get("xml:lang") or variant.attributes.get("lang", "")


def _kind_of_tmx(element: Element) -> Kind:
    match element.name:
        case "hi":
            return "pair", ""
        case "bpt":
            return "open", element.attributes.get("i", "")
        case "ept":
            return "close", element.attributes.get("i", "")
    return "alone", ""


# --- XLIFF ----------------------------------------------------------------------------------------


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
                keeps_space = _keeps_space(file, _keeps_space(self.root))
                self._add_units(file, ("trans-unit",), self._add_unit_of_1, keeps_space)
        else:
            self._check_languages(self.root, "srcLang", "trgLang")
            self._add_units(self.root, ("unit",), self._add_unit_of_2, _keeps_space(self.root))

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
        keeps_space: bool,
    ) -> None:
        """Add all units below an element that are to be translated."""
        for child in parent.all("body", "group", "file", *names):
            if child.attributes.get("translate") == "no":
                continue
            keeps = _keeps_space(child, keeps_space)
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
        keeps_space = _keeps_space(source, keeps_space)
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
            self._add_segment_of_2(unit, element, keeps_space)

    def _add_segment_of_2(self, unit: Element, element: Element, keeps_space: bool) -> None:
        source, target = element.find("source"), element.find("target")
        if source is None:
            raise self.error(element, "a segment without a source")
        is_initial = element.attributes.get("state") == "initial"
        segment = self.segment(source, _kind_of_2, _keeps_space(source, keeps_space))
        if not segment.text.strip() or not (is_initial or self._needs_text(target)):
            return

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

        self.add_unit([segment], write)


def _keeps_space(element: Element, inherited: bool = False) -> bool:
    space = element.attributes.get("xml:space")
    return space == "preserve" if space else inherited


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
