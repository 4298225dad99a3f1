"""HTML: a segment is the text between two block tags; inline elements become tags in it."""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from transformer_cli.base.errors import InputError
from transformer_cli.config.languages import base_language
from transformer_cli.extensions.documents.document import (
    LEFT_ELEMENTS,
    TEMPLATE,
    Document,
    Edit,
    Segment,
    Source,
    element_name,
    make_segment,
    read_references,
    trim,
)
from transformer_cli.extensions.documents.inline import MATH

_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\s[^<>]*?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
)
_LATIN = re.compile("iso-?8859-1|latin-?1|(us-)?ascii", re.IGNORECASE)
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_LANGUAGE = re.compile(
    r"""(\s(?:xml:)?lang\s*=\s*["']?)([A-Za-z]{2,3})(?:-\w+)*(?=["'\s>])""", re.IGNORECASE
)
_SPACES_BY_REFERENCE = re.compile(r"[\xa0\r]")
_SPACES_BEFORE, _SPACES_BEHIND = re.compile(r"^\s+"), re.compile(r"(?<!\s)\s+$")
_MOST_UNCLOSED = 100  # for each, html.parser reads the whole rest of the text
# All other elements are inline, as browsers treat elements that they do not know.
_BLOCK = re.compile(
    r"!|address|article|aside|audio|base|blockquote|body|br|canvas|caption|center|col(group)?|d[dlt]"
    r"|details|dialog|dir|div|fieldset|fig(caption|ure)|footer|form|frame(set)?|h[1-6r]|head(er)?"
    r"|hgroup|html|legend|li|link|main|menu|meta|nav|no(frames|script)|ol|optgroup|option|p|pre"
    r"|search|section|select|style|summary|t(able|body|d|foot|h|head|itle|r)|ul|video"
)
_LEFT = re.compile("|".join(LEFT_ELEMENTS))
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")


class _Event(NamedTuple):
    start: int
    kind: str  # text, or start, single or end of an element; a comment is single
    name: str = ""
    is_left: bool = False  # whether an element and its content are not translated

    @property
    def is_inline(self) -> bool:
        return not _BLOCK.fullmatch(self.name)


class _Piece(NamedTuple):
    start: int
    end: int
    name: str | None = ""  # of an element, with / for an end tag; None: it is text


class HtmlDocument(Document):
    """An HTML or XHTML file to translate, read with Python's ``html.parser``."""

    has_references = True

    def __init__(self, source: Source) -> None:
        charset = _CHARSET.search(source.data[:2048])
        declared = charset[1].decode() if charset else None
        if declared and _LATIN.fullmatch(declared):  # as browsers read it
            declared = "latin-1" if _NOT_CP1252.search(source.data) else "cp1252"
        super().__init__(source, declared)
        self._language: Edit | None = None
        self._marks = [match.span() for match in TEMPLATE.finditer(self.text)]
        # Template marks may contain HTML syntax, and appear anywhere. The space ends a tag's name.
        text = TEMPLATE.sub(lambda mark: " " + re.sub(r"[^\n]", "_", mark[0][1:]), self.text)
        pairs = (("<", ">"), ("<!--", "-->"), ("<![", "]]>"))
        if any(text.count(start, text.rfind(end) + 1) > _MOST_UNCLOSED for start, end in pairs):
            raise InputError(f"{self.name}: not HTML: too many unclosed tags or comments")
        try:
            parser = _Parser(text, self.starts)
        except AssertionError as error:  # html.parser has no other exception
            raise InputError(f"{self.name}: invalid HTML ({error})") from error
        self._read(parser.events)

    def written(self, segment: Segment, text: str) -> str:
        parts = segment.change(text, lambda part: html.escape(part, quote=False))
        # Spaces at the ends must have been references, because other spaces end a run.
        parts[0] = _SPACES_BEFORE.sub(_write_reference, parts[0])
        parts[-1] = _SPACES_BEHIND.sub(_write_reference, parts[-1])
        parts[::2] = [_SPACES_BY_REFERENCE.sub(_write_reference, part) for part in parts[::2]]
        return "".join(parts)

    def shape(self, segment: Segment) -> Hashable:
        """Return the tags with single spaces, as filling may change spaces in untranslated text."""
        return tuple(sorted(" ".join(tag.split()) for tag in segment.tag_texts))

    def final_edits(self, _: Sequence[Edit]) -> list[Edit]:
        return [self._language] if self._language else []

    def _read(self, events: Sequence[_Event]) -> None:
        run: list[_Piece] = []
        left: _Event | None = None  # an open element that is not translated
        depth = 0  # of elements with its name
        starts = [*(event.start for event in events), len(self.text)]
        for event, end in zip(events, starts[1:], strict=True):
            if left is not None:
                if event.name == left.name:
                    depth += {"start": 1, "end": -1}.get(event.kind, 0)
                if not depth:
                    run += [_Piece(left.start, end)] if left.is_inline else []
                    left = None
                continue
            if not event.is_inline:
                self._end_run(run)
                run = []
            if event.is_left:
                left, depth = event, 1
            elif event.kind == "text":
                run += self._cut(event.start, end)
            elif event.is_inline:
                name = {"start": event.name, "end": f"/{event.name}"}.get(event.kind, "")
                run.append(_Piece(event.start, end, name))
            elif event.name == "html" and event.kind == "start":
                self._find_language(event.start, end)
        self._end_run(run)
        if left is not None:
            problem = f"everything from <{left.name[:40]}> on, which has no end"
            self.leave(self._line(left.start), problem)

    def _cut(self, start: int, end: int) -> Iterator[_Piece]:
        """Yield the pieces of a text: template tags, formulas, and the text between them."""
        first = bisect_left(self._marks, (start, start))
        last = bisect_left(self._marks, (end, end))
        for at, behind in [*self._marks[first:last], (end, end)]:
            for formula in MATH.finditer(self.text, start, at):
                yield _Piece(start, formula.start(), None)
                yield _Piece(*formula.span())
                start = formula.end()
            yield _Piece(start, at, None)
            if at < behind:
                yield _Piece(at, behind, element_name(self.text[at:behind]))
            start = behind

    def _line(self, start: int) -> int:
        return bisect_right(self.starts, start, hi=len(self.lines))

    def _find_language(self, start: int, end: int) -> None:
        src, tgt = base_language(self.languages[0]), self.languages[1]
        tag = self.text[start:end]
        new = _LANGUAGE.sub(
            lambda found: found[1] + tgt if found[2].lower() == src else found[0], tag
        )
        if new != tag:
            self._language = Edit(start, end, new)

    def _end_run(self, run: Sequence[_Piece]) -> None:
        """Add a run of text and tags as a segment if it has words."""
        start, end = trim(self.text, run[0].start, run[-1].end) if run else (0, 0)
        if start == end:
            return
        pieces = [(self.text[max(start, one.start) : min(end, one.end)], one.name) for one in run]
        line = self._line(start)
        segment = make_segment(pieces, self.place(line), read_references)
        raw = "".join(text if name is None else " " for text, name in pieces)
        if segment.has_letters and "<" in raw:
            self.leave(line, "has a < that does not begin a tag")
        else:
            self.add_span(segment, start, end)


def _write_reference(signs: re.Match[str]) -> str:
    return "".join(f"&#{ord(sign)};" for sign in signs[0])


class _Parser(HTMLParser):
    """A parser that records html.parser's events, each with its offset in the text."""

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[_Event] = []
        self._starts = starts  # offsets of lines
        self.feed(text)
        self.close()

    def _add(self, kind: str, name: str = "", is_left: bool = False) -> None:
        line, column = self.getpos()
        self.events.append(_Event(self._starts[line - 1] + column, kind, name, is_left))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if _VOID.fullmatch(tag):
            self._add("single", tag)
            return
        given = {name: value or "" for name, value in attrs}
        says_no = given.get("translate", "").lower() == "no"
        is_left = says_no or "notranslate" in given.get("class", "").split()
        self._add("start", tag, is_left or _LEFT.fullmatch(tag) is not None)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("single", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        if not self.events or self.events[-1].kind != "text":  # '&amp;' continues the text
            self._add("text")

    def handle_entityref(self, name: str) -> None:
        self.handle_data(name)

    handle_charref = handle_entityref

    def handle_comment(self, data: str) -> None:
        """Record a comment, an instruction such as <?php, or a marked section."""
        self._add("single")

    handle_pi = unknown_decl = handle_comment

    def handle_decl(self, decl: str) -> None:
        self._add("single", "!")
