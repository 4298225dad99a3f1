"""HTML: runs of text between the tags of blocks, with inline elements as their tags."""

import html
import re
from bisect import bisect_right
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from transformer_cli.data.readers.units import primary_language
from transformer_cli.documents.document import (
    LETTER,
    Document,
    Edit,
    Filling,
    Segment,
    Source,
    Tag,
    join_lines,
    pair_elements,
    read_references,
    splice,
)
from transformer_cli.errors import InputError

_CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["']?)([A-Za-z]{2,3})(?:-\w+)*(?=["'\s>])""")
_BROKEN_TAG = re.compile(r"<(?=\S)")  # or a template's
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
    name: str  # of an element, with / before it at its end; empty: text
    is_alone: bool = False


class HtmlDocument(Document):
    """An HTML or XHTML file."""

    def __init__(self, source: Source) -> None:
        declared = _CHARSET.search(source.data[:2048])
        named = declared[1].decode() if declared else "utf-8"
        self._encoding = source.encoding_by_mark() or named
        self._name, self._languages = source.name, source.languages
        self._text = source.decode(self._encoding)
        self.segments, self.left = [], []
        self._spans: list[tuple[int, int]] = []
        self._language: Edit | None = None
        try:
            parser = _Parser(self._text)
        except AssertionError as error:  # html.parser has no other
            raise InputError(f"{self._name}: invalid HTML ({error})") from error
        self._lines, self._events = parser.lines, parser.events
        self._read()

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the file; characters that its encoding has not are references."""
        edits = []
        for segment, span, filling in zip(self.segments, self._spans, fillings, strict=True):
            if filling is not None:
                parts = segment.split(filling.text)
                parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
                parts[::2] = [part.replace("\xa0", "&#160;") for part in parts[::2]]
                edits.append(Edit(*span, "".join(parts)))
        edits += [self._language] if self._language and edits else []
        return splice(self._text, edits).encode(self._encoding, "xmlcharrefreplace")

    def _read(self) -> None:
        run: list[_Piece] = []
        left, depth, begun = "", 0, 0  # the element that is left as it is
        starts = [*(event.start for event in self._events), len(self._text)]
        for event, end in zip(self._events, starts[1:], strict=True):
            start, kind, name, _ = event
            if depth:
                if name == left:
                    depth += {"start": 1, "end": -1}.get(kind, 0)
                if not depth and _INLINE.fullmatch(name):
                    run.append(_Piece(begun, end, name, True))
            elif kind == "start" and event.is_left:
                left, depth, begun = name, 1, start
                if not _INLINE.fullmatch(name):
                    run = self._end_run(run)
            elif kind == "text":
                is_marked = not start and self._text.startswith("\ufeff")
                run.append(_Piece(start + is_marked, end, ""))
            elif kind == "comment" or (kind == "single" and _INLINE.fullmatch(name)):
                run.append(_Piece(start, end, name, True))
            elif _INLINE.fullmatch(name):
                run.append(_Piece(start, end, name if kind == "start" else f"/{name}"))
            else:
                run = self._end_run(run)
                if name == "html" and kind == "start":
                    self._find_language(start, end)
        self._end_run(run)
        if depth:
            self.left.append(f"{self._place(begun)}: all from <{left[:40]}> on, which has no end")

    def _place(self, start: int) -> str:
        return f"{self._name}:{bisect_right(self._lines, start)}"

    def _find_language(self, start: int, end: int) -> None:
        src, tgt = self._languages
        tag = self._text[start:end]
        new = _LANGUAGE.sub(
            lambda match: (
                match[1] + (tgt if match[2].lower() == primary_language(src) else match[2])
            ),
            tag,
        )
        if new != tag:
            self._language = Edit(start, end, new)

    def _end_run(self, run: list[_Piece]) -> list[_Piece]:
        """Make a segment of a run, if there are words in it; return an empty one."""
        while run and not run[0].name and not self._text[run[0].start : run[0].end].strip():
            run = run[1:]
        while run and not run[-1].name and not self._text[run[-1].start : run[-1].end].strip():
            run = run[:-1]
        texts = [self._text[piece.start : piece.end] for piece in run]
        if not any(
            LETTER.search(read_references(text))
            for text, piece in zip(texts, run, strict=True)
            if not piece.name and not piece.is_alone
        ):
            return []
        start, end = run[0].start, run[-1].end
        raw = "".join(" " if piece.name else text for text, piece in zip(texts, run, strict=True))
        if _BROKEN_TAG.search(raw):
            self.left.append(f"{self._place(start)}: has a < that begins no tag")
            return []
        if not run[0].name:
            start += len(texts[0]) - len(texts[0].lstrip())
        if not run[-1].name:
            end -= len(texts[-1]) - len(texts[-1].rstrip())
        self._spans.append((start, end))
        self.segments.append(self._segment(run, start, end))
        return []

    def _segment(self, run: Sequence[_Piece], start: int, end: int) -> Segment:
        text, tags = "", list[Tag]()
        halves = pair_elements(["" if piece.is_alone else piece.name for piece in run])
        raw = ""
        for number, piece in enumerate(run):
            written = self._text[max(start, piece.start) : min(end, piece.end)]
            if piece.name or piece.is_alone:
                text += join_lines(read_references(raw))
                raw = ""
                tags.append(Tag(len(text), len(text) + len(written), *halves[number]))
                text += written
            else:
                raw += written  # of '&amp;' html.parser makes an event of its own
        text += join_lines(read_references(raw))
        return Segment(text, self._place(start), tuple(tags))


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

    def handle_charref(self, name: str) -> None:
        """Note text."""
        self._add("text")

    def handle_comment(self, data: str) -> None:
        """Note a comment."""
        self._add("comment", "!")

    def handle_decl(self, decl: str) -> None:
        """Note a declaration, which ends a run."""
        self._add("single", "!")

    def handle_pi(self, data: str) -> None:
        """Note an instruction, as <?php says one."""
        self._add("comment", "!")

    def unknown_decl(self, data: str) -> None:
        """Note a marked section."""
        self._add("comment", "!")
