"""XML with the place of each element, so that what is filled can be put between the others' bytes.

Expat reads it: no entities of a file's own, nothing from elsewhere, and bounds on all it keeps.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from transformer_cli.documents.document import (
    Segment,
    Source,
    Tag,
    TextDocument,
    join_lines,
)
from transformer_cli.errors import InputError

_DECLARED = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")
_START_TAG = re.compile(r"""<[^\s/>]+(?:"[^"]*"|'[^']*'|[^"'>]+)*+>""")
_ATTRIBUTE = re.compile(r"""\s([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(\w+));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_INNER = re.compile(r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<literal>.*?)\]\]>", re.DOTALL)
_MAX_ELEMENTS = 1_000_000
_MAX_DEPTH = 100

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
