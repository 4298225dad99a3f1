"""HTML: runs of text between the tags of blocks, with inline elements as their tags."""

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from transformer_cli.data.readers.units import primary_language
from transformer_cli.documents.document import (
    TEMPLATE,
    Edit,
    Segment,
    Source,
    TextDocument,
    element_name,
    make_segment,
    read_references,
)
from transformer_cli.errors import InputError

_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\s[^<>]*?(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
)
_LATIN = re.compile("iso-?8859-1|latin-?1|(us-)?ascii", re.IGNORECASE)
_NOT_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_LANGUAGE = re.compile(
    r"""(\s(?:xml:)?lang\s*=\s*["']?)([A-Za-z]{2,3})(?:-\w+)*(?=["'\s>])""", re.IGNORECASE
)
_BROKEN_TAG = re.compile(r"<(?=\S)")
_MOST_UNCLOSED = 100  # for each of which html.parser reads all that follows
_INLINE = re.compile(
    r"a|abbr|acronym|b|bd[io]|big|button|cite|data|del|dfn|em|font|i|img|ins|label|mark|meter"
    r"|output|progress|q|r[pt]|ruby|s|small|span|strike|strong|su[bp]|time|u|wbr|code|kbd|samp|tt|var"
)
_LEFT = re.compile(
    r"code|kbd|samp|tt|var|math|noscript|object|pre|script|style|svg|template|textarea"
)
_VOID = re.compile(r"area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr")


class _Event(NamedTuple):
    start: int
    kind: str  # text, comment, or start, single or end of an element
    name: str = ""
    is_left: bool = False


class _Piece(NamedTuple):
    start: int
    end: int
    name: str = ""  # of an element, with / before it at its end
    is_text: bool = False


class HtmlDocument(TextDocument):
    """An HTML or XHTML file."""

    def __init__(self, source: Source) -> None:
        declared = _CHARSET.search(source.data[:2048])
        encoding = declared[1].decode() if declared else "utf-8"
        if _LATIN.fullmatch(encoding):  # as browsers read it
            encoding = "latin-1" if _NOT_CP1252.search(source.data) else "cp1252"
        super().__init__(source, encoding)
        self._language: Edit | None = None
        self._marks = [match.span() for match in TEMPLATE.finditer(self.text)]
        # They may hold signs of HTML, and are anywhere in it: the space ends a tag's name.
        text = TEMPLATE.sub(lambda mark: " " + re.sub(r"[^\n]", "_", mark[0][1:]), self.text)
        pairs = (("<", ">"), ("<!--", "-->"), ("<![", "]]>"))
        if any(text.count(start, text.rfind(end) + 1) > _MOST_UNCLOSED for start, end in pairs):
            raise InputError(f"{self.name}: no HTML: very many tags or comments without an end")
        try:
            parser = _Parser(text)
        except AssertionError as error:  # html.parser has no other
            raise InputError(f"{self.name}: invalid HTML ({error})") from error
        self._lines, self._events = parser.lines, parser.events
        self._read()

    def written(self, segment: Segment, text: str) -> str:
        """Return a translation with references for what would read as markup."""
        parts = segment.split(text)
        parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
        parts[::2] = [part.replace("\xa0", "&#160;") for part in parts[::2]]
        return "".join(parts)

    def final_edits(self) -> list[Edit]:
        """Return the language of the page."""
        return [self._language] if self._language else []

    def _read(self) -> None:
        run: list[_Piece] = []
        left, depth, begun = "", 0, 0  # the element that is left as it is
        starts = [*(event.start for event in self._events), len(self.text)]
        for event, end in zip(self._events, starts[1:], strict=True):
            start, kind, name, _ = event
            if depth:
                if name == left:
                    depth += {"start": 1, "end": -1}.get(kind, 0)
                if not depth and _INLINE.fullmatch(name):
                    run.append(_Piece(begun, end))
            elif kind == "start" and event.is_left:
                left, depth, begun = name, 1, start
                if not _INLINE.fullmatch(name):
                    run = self._end_run(run)
            elif kind == "text":
                is_marked = not start and self.text.startswith("\ufeff")
                run += self._cut_marks(start + is_marked, end)
            elif kind == "comment" or (kind == "single" and _INLINE.fullmatch(name)):
                run.append(_Piece(start, end))
            elif _INLINE.fullmatch(name):
                run.append(_Piece(start, end, name if kind == "start" else f"/{name}"))
            else:
                run = self._end_run(run)
                if name == "html" and kind == "start":
                    self._find_language(start, end)
        self._end_run(run)
        if depth:
            self.left.append(f"{self._place(begun)}: all from <{left[:40]}> on, which has no end")

    def _cut_marks(self, start: int, end: int) -> Iterator[_Piece]:
        """Yield text, and a template's marks in it, which begin and end there."""
        first = bisect_left(self._marks, (start, start))
        last = bisect_left(self._marks, (end, end))
        for at, behind in self._marks[first:last]:
            yield _Piece(start, at, is_text=True)
            yield _Piece(at, behind, element_name(self.text[at:behind]))
            start = behind
        yield _Piece(start, end, is_text=True)

    def _place(self, start: int) -> str:
        return f"{self.name}:{bisect_right(self._lines, start)}"

    def _find_language(self, start: int, end: int) -> None:
        src, tgt = primary_language(self.languages[0]), self.languages[1]
        tag = self.text[start:end]
        new = _LANGUAGE.sub(
            lambda found: found[1] + tgt if found[2].lower() == src else found[0], tag
        )
        if new != tag:
            self._language = Edit(start, end, new)

    def _end_run(self, run: list[_Piece]) -> list[_Piece]:
        """Make a segment of a run, if there are words in it; return an empty one."""
        texts = [self.text[piece.start : piece.end] for piece in run]
        filled = [n for n, one in enumerate(run) if not one.is_text or texts[n].strip()]
        if not filled:
            return []
        run = run[filled[0] : filled[-1] + 1]
        texts = texts[filled[0] : filled[-1] + 1]
        start, end = run[0].start, run[-1].end
        if run[0].is_text:
            start += len(texts[0]) - len(texts[0].lstrip())
        if run[-1].is_text:
            end -= len(texts[-1]) - len(texts[-1].rstrip())
        cut = (self.text[max(start, one.start) : min(end, one.end)] for one in run)
        names = (None if one.is_text else one.name for one in run)
        pieces = zip(cut, names, strict=True)
        segment = make_segment(pieces, self._place(start), read_references)
        raw = "".join(text if one.is_text else " " for text, one in zip(texts, run, strict=True))
        if segment.has_words and _BROKEN_TAG.search(raw):
            self.left.append(f"{self._place(start)}: has a < that begins no tag")
        elif segment.has_words:
            self.add_span(segment, start, end)
        return []


class _Parser(HTMLParser):
    """What html.parser finds, by offset."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.events: list[_Event] = []
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _add(self, kind: str, name: str = "", is_left: bool = False) -> None:
        line, column = self.getpos()
        self.events.append(_Event(self.lines[line - 1] + column, kind, name, is_left))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's start."""
        given = dict(attrs)
        is_left = _LEFT.fullmatch(tag) is not None or given.get("translate") == "no"
        is_left |= "notranslate" in (given.get("class") or "").split()
        self._add("single" if _VOID.fullmatch(tag) else "start", tag, is_left)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is closed at once."""
        self._add("single", tag)

    def handle_endtag(self, tag: str) -> None:
        """Note an element's end."""
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        """Note text."""
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        """Note text."""
        self._add("text")

    handle_charref = handle_entityref

    def handle_comment(self, data: str) -> None:
        """Note a comment, an instruction as <?php says one, or a marked section."""
        self._add("comment", "!")

    handle_pi = unknown_decl = handle_comment

    def handle_decl(self, decl: str) -> None:
        """Note a declaration, which ends a run."""
        self._add("single", "!")
