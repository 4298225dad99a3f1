"""Parses XML with the offsets of each element, so that translating keeps all other bytes.

Files are refused if they declare entities, have too many elements, or nest them too deep.
"""

import re
from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.corpora.tmx import MAX_DEPTH, make_parser
from transformer_cli.extensions.documents.document import (
    Document,
    Filling,
    Part,
    Segment,
    Source,
    Tag,
    join_lines,
    mark_accelerator,
)
from transformer_cli.extensions.documents.inline import find_partners

_DECLARED = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_START_TAG = re.compile(r"""<[^\s/>"']++(?:"[^"]*+"|'[^']*+'|[^"'>]++)*+>""")
_ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(\w+));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_INNER = re.compile(
    r"<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<!\[CDATA\[(?P<literal>.*?)(?:\]\]>|\Z)", re.DOTALL
)
_MAX_ELEMENTS = 1_000_000

Kind = tuple[Literal["open", "close", "alone"], str]
"""The kind of an inline tag, and the key that it shares with its partner."""
What = Literal["text", "left"] | Kind  # text to translate, text to keep, or a tag
Scopes = dict[str, bool]
"""Maps the key of each element around a text to whether to translate the text; the last counts."""
UNIT = "\0"  # the scope of a unit; no element can have this key


@dataclass(eq=False)
class Element:
    """An XML element, with its offsets in the file's text."""

    name: str
    attributes: dict[str, str]
    line: int
    start: int
    content: int  # after its start tag
    content_end: int = 0
    end: int = 0
    children: list["Element"] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if the element is a single tag."""
        return self.content == self.end

    @property
    def prefix(self) -> str:
        """The namespace prefix of the element's name, with the colon."""
        return self.name[: self.name.rfind(":") + 1]

    def inner_elements(self) -> Iterator["Element"]:
        """Yield all elements inside this one, in the order of their start tags."""
        for child in self.children:
            yield child
            yield from child.inner_elements()

    def find(self, local: str) -> "Element | None":
        """Return the first child with this name and this element's prefix, or None."""
        return next(self.all(local), None)

    def all(self, *local: str) -> Iterator["Element"]:
        """Yield the children with one of these names and this element's prefix."""
        names = [f"{self.prefix}{name}" for name in local]
        return (child for child in self.children if child.name in names)


class XmlDocument(Document):
    """An XML file; its format's subclass decides which elements are segments."""

    has_references = True

    def __init__(self, source: Source) -> None:
        declared = _DECLARED.match(source.data.removeprefix(b"\xef\xbb\xbf"))
        named = declared[1].decode() if declared else "utf-8"
        super().__init__(source, named)
        self.root = _parse(self.text, self.name)

    def structure(self, fillings: Sequence[Filling | None] = ()) -> list[Part]:
        """Return parts: one for each target's tags, one for each text between, without space."""
        parts, around, place = list[Part](), list[str](), 0
        for start, end, shape, segments in sorted(self._runs, key=lambda run: run[:2]):
            around.append(self.text[place:start])
            if shape is not None:
                parts.append(Part((len(parts), "".join("".join(around).split()))))
                parts.append(Part((len(parts), shape), segments))
                around = []
            place = end
        around.append(self.text[place:])
        return [*parts, Part((len(parts), "".join("".join(around).split())))]

    def add_changing(self, start: int, end: int) -> None:
        """Add a span that inserting translations may change; ``structure`` leaves it out."""
        self.add_run(start, end, None, range(0))

    def start_tag(self, element: Element, attributes: Mapping[str, str]) -> str:
        """Return an element's start tag with these attributes set, never self-closing."""
        tag = self.text[element.start : element.content - 1].removesuffix("/").rstrip()
        for name, value in attributes.items():
            written = f" {name}={quoteattr(value)}"
            there = (match for match in _ATTRIBUTE.finditer(tag) if match[1] == name)
            match = next(there, None)
            start, end = match.span() if match else (len(tag), len(tag))
            tag = tag[:start] + written + tag[end:]
        return f"{tag}>"

    def add_target(
        self, place: int, target: Element | None, texts: Iterable[Element], segments: range
    ) -> None:
        """Add the span of ``target`` or, if that is None, the offset ``place`` of a new target.

        The ``segments`` with these indices will fill it. It will have the tags in ``texts``.
        """
        start, end = (target.start, target.end) if target else (place, place)
        inner = (each for text in texts for each in text.inner_elements())
        tags = sorted(self.text[each.start : each.content] for each in inner)
        self.add_run(start, end, tuple(tags), segments)

    def indent(self, element: Element) -> str:
        """Return the white space between an element and the tag before it."""
        start = element.start
        while self.text[start - 1].isspace():
            start -= 1
        return self.text[start : element.start] if self.text[start - 1] == ">" else ""

    @abstractmethod
    def kind(self, element: Element) -> Kind | Literal["pair"]:
        """Return the kind of an element in a segment: one tag, or a pair of tags."""

    def lacks_text(self, segment: Segment, target: Element | None, scopes: Scopes) -> bool:
        """Return whether a target is missing, or has no text although its source has some."""
        if target is None:
            return True
        there = self.segment(target, dict(scopes))
        return not there.plain.strip() and (bool(segment.plain.strip()) or not there.tags)

    def segment(self, element: Element, scopes: Scopes, keeps_space: bool = False) -> Segment:
        """Return an element's content as a segment.

        Text that must not be translated becomes part of the tag before it. ``scopes`` must be the
        scopes at the element's start, and is updated to those at the element's end.
        """
        text, tags, opened, joined = "", list[Tag](), dict[str, int](), set[int]()
        left, left_at, text_end = "", -1, 0
        for piece, what in self._pieces(element, scopes):
            if what == "text":
                text += piece if keeps_space else join_lines(piece)
                text_end = len(text) if piece else text_end
            elif what == "left" and tags:
                text += piece
                tags[-1], left_at = tags[-1]._replace(end=len(text)), len(tags) - 1
                joined.add(len(text))
            elif what == "left":
                left += piece
            else:
                how, key = what
                start = len(text)
                text += left + piece
                left = ""
                first = opened.pop(key, len(tags)) if how == "close" else len(tags)
                inner = (tags[n].kind == "alone" for n in range(first + 1, len(tags)))
                if first <= left_at and tags[first].start >= text_end and all(inner):
                    # A pair without translatable text is a single tag.
                    tags[first:], left_at = [Tag(tags[first].start, len(text))], first
                else:
                    opened |= {key: len(tags)} if how == "open" else {}
                    tags.append(Tag(start, len(text), how, key))
        place = self.place(element.line)
        if not tags and not left:
            return mark_accelerator(text, place, escape)
        tags += [Tag(0, len(left))] if left else []
        if find_partners(tags) is None:
            tags = _join_tags(tags, joined)
        return Segment(text + left, place, tuple(tags))

    def _pieces(self, element: Element, scopes: Scopes) -> Iterator[tuple[str, What]]:
        """Yield pieces: unescaped text, and tags and untranslatable text as written in the file."""
        place = element.content
        for child in element.children:
            yield from self._texts(place, child.start, scopes)
            place = child.end
            kind, translates = self.kind(child), says_translate(child)
            if kind == "pair" and not child.is_empty:
                key = f"{child.name} {child.start}"
                scopes |= {} if translates is None else {key: translates}
                yield self.text[child.start : child.content], ("open", key)
                yield from self._pieces(child, scopes)
                yield self.text[child.content_end : child.end], ("close", key)
                scopes.pop(key, None)
                continue
            tag: Kind = ("alone", "") if kind == "pair" else kind
            if tag[0] == "open" and translates is not None:
                scopes[tag[1]] = translates
            elif tag[0] == "close":
                scopes.pop(tag[1], None)
            yield self.text[child.start : child.end], tag
        yield from self._texts(place, element.content_end, scopes)

    def _texts(self, start: int, end: int, scopes: Scopes) -> Iterator[tuple[str, What]]:
        raw = self.text[start:end]
        if raw and not next(reversed(scopes.values())):
            yield raw, "left"
        elif raw:
            yield from _read_text(raw)


def _join_tags(tags: Sequence[Tag], places: Container[int]) -> list[Tag]:
    """Join adjacent tags that meet at one of the offsets ``places``."""
    found: list[Tag] = []
    for tag in tags:
        if found and found[-1].end == tag.start and tag.start in places:
            tag = Tag(found.pop().start, tag.end)
        found.append(tag)
    return found


def write_text(segment: Segment, text: str) -> str:
    """Return a translation in XML syntax, with the segment's tags."""
    return "".join(segment.change(text, lambda part: escape(part).replace("\r", "&#13;")))


def _read_text(raw: str) -> Iterator[tuple[str, What]]:
    """Yield text and, as tags, comments and processing instructions."""
    place = 0
    for match in _INNER.finditer(raw):
        yield _unescape(raw[place : match.start()]), "text"
        literal = match["literal"]
        yield (match[0], ("alone", "")) if literal is None else (_read_line_ends(literal), "text")
        place = match.end()
    yield _unescape(raw[place:]), "text"


def says_translate(element: Element) -> bool | None:
    """Return whether an element says to translate its text; None if it says nothing about it."""
    if element.attributes.get("mtype") == "protected":
        return False
    return {"yes": True, "no": False}.get(element.attributes.get("translate", ""))


def _read_line_ends(raw: str) -> str:
    return raw.replace("\r\n", "\n").replace("\r", "\n")


def _unescape(raw: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        decimal, hexadecimal, name = match.groups()
        if name:
            return _NAMED.get(name, match[0])
        return chr(int(decimal) if decimal else int(hexadecimal, 16))

    return _REFERENCE.sub(unescape, _read_line_ends(raw))


def _parse(text: str, name: str) -> Element:
    """Parse the text of the file ``name``; return the root element."""
    stack: list[Element] = []
    roots: list[Element] = []
    count = 0

    def make_error(problem: str) -> InputError:
        return InputError(f"{name}:{parser.ErrorLineNumber}: {problem}")

    parser = make_parser("utf-8", make_error)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MAX_ELEMENTS:
            raise make_error(f"more than {_MAX_ELEMENTS:,} elements; split the file")
        if len(stack) > MAX_DEPTH:
            raise make_error(f"elements are nested more than {MAX_DEPTH} deep")
        found = _START_TAG.match(text, parser.CurrentByteIndex)
        if found is None:
            raise make_error(f"the tag of '{tag[:40]}' cannot be read")
        element = Element(tag, attributes, parser.CurrentLineNumber, found.start(), found.end())
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(_: str) -> None:
        element = stack.pop()
        if text[element.content - 2] == "/":
            element.content_end = element.end = element.content
        else:
            element.content_end = parser.CurrentByteIndex
            element.end = text.index(">", element.content_end) + 1

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        # Use one byte per character, so that offsets are the text's. No name or attribute that we
        # look for has other letters.
        parser.Parse(re.sub(r"[^\x00-\x7f]", "x", text).encode(), True)
    except expat.ExpatError as error:
        raise make_error(f"invalid XML ({expat.ErrorString(error.code)})") from error
    return roots[0]
