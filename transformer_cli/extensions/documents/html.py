"""HTML: a segment is the text between two block tags; inline elements become tags in it."""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import groupby
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
    kind: str  # text, comment, or start, single or end of an element
    name: str = ""
    is_left: bool = False  # whether an element and its content are not translated

    @property
    def is_inline(self) -> bool:
        return not _BLOCK.fullmatch(self.name)


class _Piece(NamedTuple):
    start: int
    end: int
    name: str = ""  # of an element, with / for an end tag
    is_text: bool = False


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
        self._events = parser.events
        self._read()

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

    def _read(self) -> None:
        run: list[_Piece] = []
        left: _Event | None = None  # an open element that is not translated
        depth = 0  # of elements with its name
        starts = [*(event.start for event in self._events), len(self.text)]
        for event, end in zip(self._events, starts[1:], strict=True):
            if left is not None:
                if event.name == left.name:
                    depth += {"start": 1, "end": -1}.get(event.kind, 0)
                if not depth:
                    run += [_Piece(left.start, end)] if left.is_inline else []
                    left = None
            elif event.is_left:
                run = run if event.is_inline else self._end_run(run)
                left, depth = event, 1
            else:
                run = self._read_event(run, event, end)
        self._end_run(run)
        if left is not None:
            problem = f"everything from <{left.name[:40]}> on, which has no end"
            self.leave(self._line(left.start), problem)

    def _read_event(self, run: list[_Piece], event: _Event, end: int) -> list[_Piece]:
        """Return ``run`` extended by a parser's event, or an empty run if the event ends it."""
        start, kind, name, _ = event
        if kind == "text":
            run.append(_Piece(start, end, is_text=True))
        elif kind == "comment" or (kind == "single" and event.is_inline):
            run.append(_Piece(start, end))
        elif event.is_inline:
            run.append(_Piece(start, end, name if kind == "start" else f"/{name}"))
        else:
            run = self._end_run(run)
            if name == "html" and kind == "start":
                self._find_language(start, end)
        return run

    def _cut(self, found: list[_Piece], is_text: bool) -> Iterator[_Piece]:
        """Yield the pieces; divide text so that template tags and formulas are separate pieces."""
        if not is_text:
            yield from found
            return
        start, end = found[0].start, found[-1].end
        first = bisect_left(self._marks, (start, start))
        last = bisect_left(self._marks, (end, end))
        for at, behind in [*self._marks[first:last], (end, end)]:
            for formula in MATH.finditer(self.text, start, at):
                yield _Piece(start, formula.start(), is_text=True)
                yield _Piece(*formula.span())
                start = formula.end()
            yield _Piece(start, at, is_text=True)
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

    def _end_run(self, run: list[_Piece]) -> list[_Piece]:
        """Add a run of text and tags as a segment if it has words; return a new, empty run."""
        run = [
            piece
            for is_text, found in groupby(run, lambda piece: piece.is_text)
            for piece in self._cut(list(found), is_text)
        ]
        texts = [self.text[piece.start : piece.end] for piece in run]
        filled = [n for n, one in enumerate(run) if not one.is_text or texts[n].strip()]
        if not filled:
            return []
        run = run[filled[0] : filled[-1] + 1]
        texts = texts[filled[0] : filled[-1] + 1]
        start, end = run[0].start, run[-1].end
        if run[0].is_text:
            start = self.trim(start, run[0].end)[0]
        if run[-1].is_text:
            end = self.trim(run[-1].start, end)[1]
        cut = (self.text[max(start, one.start) : min(end, one.end)] for one in run)
        names = (None if one.is_text else one.name for one in run)
        pieces = zip(cut, names, strict=True)
        line = self._line(start)
        segment = make_segment(pieces, self.place(line), read_references)
        raw = "".join(text if one.is_text else " " for text, one in zip(texts, run, strict=True))
        if segment.has_letters and "<" in raw:
            self.leave(line, "has a < that does not begin a tag")
        else:
            self.add_span(segment, start, end)
        return []


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
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    handle_charref = handle_entityref

    def handle_comment(self, data: str) -> None:
        """Record a comment, an instruction such as <?php, or a marked section."""
        self._add("comment", "!")

    handle_pi = unknown_decl = handle_comment

    def handle_decl(self, decl: str) -> None:
        self._add("single", "!")
