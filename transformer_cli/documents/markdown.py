"""Markdown: paragraphs, headings, list items and cells of tables; markdown-it-py finds them."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer_cli.documents.document import (
    TEMPLATE,
    Segment,
    Source,
    TextDocument,
    element_name,
    make_segment,
)
from transformer_cli.packages import import_extra

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

_FRONT_MATTER = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|$)", re.DOTALL)
# GitHub's, and those of Docusaurus and Pandoc.
_ADMONITION = re.compile(r"^[ \t]*(?:\[!\w+\][ \t]*$|:::.*)", re.MULTILINE)
_CODE = ("code", "kbd", "samp", "tt", "var")
_BOX = re.compile(r"\[[ xX]\]\s+")  # of a task
# Footnotes, and attributes of Kramdown and Pandoc.
_MARK = re.compile(
    rf"\[\^[^\]\s]{{1,100}}\]:?|{TEMPLATE.pattern}|\{{:?[ ]?[#.:][^{{}}\n]*\}}", re.DOTALL
)
_BLOCK = re.compile(
    r"^(?:(\d{1,9})(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|>|=+\s*$|[-+*](?:\s|$)|```|~~~"
    r"|[-:|\s]+$|(?:[*_-]\s*){3,}$|\[(?!\^)[^\]]*\]:))"
)
"""What may begin a block that is no paragraph."""
_MARKUP = re.compile(r"[\\`*_\[\]<>~]")
_BAR = re.compile(r"(?<!\\)\|")
_SPACES = re.compile(r"\s+")


class _Found(NamedTuple):
    """An inline tag in a block's content; names of the two of a pair are as in HTML."""

    start: int
    end: int
    name: str = ""
    full: str = ""  # what it is written as, if not as it is


class MarkdownDocument(TextDocument):
    """A Markdown file."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._escaping: set[Segment] = set()  # bars, as in cells of tables
        self._inline = _InlineTags(self.name)
        front = _FRONT_MATTER.match(self.text)
        hidden = "\n" * front[0].count("\n") if front else ""
        body = self.text[front.end() :] if front else self.text.removeprefix("\ufeff")
        lines = re.split(r"(?<=\n)", self.text)
        starts = [0, *accumulate(map(len, lines))]
        cursors = dict[int, int]()
        for token in self._inline.parse((hidden + body).replace("\r\n", "\n").replace("\r", " ")):
            if token.type == "inline" and token.map:
                self._add_block(token.content, token.map[0], lines, starts, cursors)

    def _add_block(
        self,
        content: str,
        first: int,
        lines: Sequence[str],
        starts: Sequence[int],
        cursors: dict[int, int],
    ) -> None:
        """Add the segments of a block, whose lines are found again behind their prefixes."""
        offsets: list[int] = []  # of each character of the content
        has_bars = False
        # Of cells there are several in a line; of other lines the end, as a list's '1.' may be it.
        find = str.rfind if "\n" in content else str.find
        for number, part in enumerate(content.split("\n"), start=first):
            raw, cursor = lines[number] if number < len(lines) else "", cursors.get(number, 0)
            at, written = find(raw, part, cursor), part
            if at < 0:  # in a table, bars of the text are escaped
                written, has_bars = part.replace("|", r"\|"), True
                at = raw.find(written, cursor)
            if at < 0:
                self.left.append(f"{self.name}:{first + 1}: its text cannot be found again")
                return
            cursors[number] = at + len(written)
            widths = (1 + (sign == "|" and written != part) for sign in part)
            offsets += accumulate(widths, initial=starts[number] + at)
        found, breaks = self._inline.find(content)
        box = _BOX.match(content)
        edges = [box.end() if box else 0, *(e for each in breaks for e in each), len(content)]
        tag_starts = [tag.start for tag in found]
        line, counted = first + 1, 0
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            text = content[start:end]
            start, text = start + len(text) - len(text.lstrip()), text.strip()
            last, pieces, place = start + len(text), list[tuple[str, str | None]](), start
            line, counted = line + content.count("\n", counted, start), start
            of_part = slice(*(bisect_left(tag_starts, edge) for edge in (start, last)))
            for tag in found[of_part]:
                if tag.end <= last:
                    pieces.append((content[place : tag.start], None))
                    pieces.append((tag.full or content[tag.start : tag.end], tag.name))
                    place = tag.end
            pieces.append((content[place:last], None))
            on_one_line = ((re.sub(r"\s", " ", piece), name) for piece, name in pieces)
            segment = make_segment(on_one_line, f"{self.name}:{line}", str)
            if segment.has_words:
                self.add_span(segment, offsets[start], offsets[last])
                if has_bars:
                    self._escaping.add(segment)

    def written(self, segment: Segment, text: str) -> str:
        """Return a translation with escapes for what would read as markup."""
        parts = segment.split(text)
        parts[::2] = [_SPACES.sub(" ", part) for part in parts[::2]]
        found, _ = self._inline.find("".join(parts))
        if len(found) != len(segment.tags):
            parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        if segment in self._escaping:
            parts = [part.replace("|", r"\|") for part in parts]
        elif "|" not in segment.text:  # it might be in a table
            parts[::2] = [_BAR.sub(r"\|", part) for part in parts[::2]]
        return _BLOCK.sub(r"\1\\", "".join(parts), count=1)


class _InlineTags:
    """markdown-it-py, which notes where its rules have found something."""

    def __init__(self, name: str) -> None:
        markdown_it = import_extra("markdown_it", "documents", name)
        self._parser: MarkdownIt = markdown_it.MarkdownIt("commonmark")
        self._parser.enable(["table", "strikethrough"])
        for rule in self._parser.inline.ruler.__rules__:
            rule.fn = self._noting(rule.name, rule.fn)
        self._env: dict[str, Any] = {}
        self._notes: list[_Found] = []
        self._breaks: list[tuple[int, int]] = []
        self._places: dict[int, int] = {}  # of tokens, by their identity

    def parse(self, text: str) -> Sequence[Any]:
        """Return the tokens of blocks; definitions of links are kept for ``find``."""
        return self._parser.parse(text, self._env)

    def find(self, content: str) -> tuple[list[_Found], list[tuple[int, int]]]:
        """Return the tags of a block's content, and what cuts it, as hard line breaks, in order."""
        self._notes, self._breaks, self._places = [], [], {}
        tokens: list[Any] = []
        self._parser.inline.parse(content, self._parser, self._env, tokens)
        notes = [*self._notes, *self._delimiters(tokens)]
        for match in _MARK.finditer(content):
            notes.append(_Found(*match.span(), element_name(match[0])))
        kept: list[_Found] = []
        for note in sorted(notes, key=lambda note: (note.start, -note.end)):
            touching = (kept[-1].name, note.name) if kept and kept[-1].end == note.start else ()
            if kept and kept[-1].name in _CODE:  # with what is in it
                is_end = note.name == f"/{kept[-1].name}"
                end = max(kept[-1].end, note.end)
                kept[-1] = _Found(kept[-1].start, end, "" if is_end else kept[-1].name)
            elif touching in (("em", "strong"), ("/strong", "/em")):  # as in ***text***
                half = note.name[: note.name.find("/") + 1]
                kept[-1] = _Found(kept[-1].start, note.end, f"{half}both")
            elif not kept or note.start >= kept[-1].end:  # not what is in code or in an image
                kept.append(note)
        # Those in <code> are parts of its tag.
        cuts = (*self._breaks, *(mark.span() for mark in _ADMONITION.finditer(content)))
        starts = [note.start for note in kept]

        def is_inside(place: int) -> bool:
            number = bisect_left(starts, place) - 1
            return number >= 0 and place < kept[number].end

        return kept, sorted(one for one in cuts if not is_inside(one[0]))

    def _delimiters(self, tokens: Sequence[Any]) -> Iterator[_Found]:
        for token in tokens:
            kind, _, half = token.type.rpartition("_")
            if kind in ("em", "strong", "s") and id(token) in self._places:
                start, size = self._places[id(token)], len(token.markup)
                # Of two that make <strong>, the second opens, and the first closes.
                start -= half == "open" and kind == "strong"
                yield _Found(start, start + size, kind if half == "open" else f"/{kind}")

    def _noting(self, name: str, rule: Callable[..., bool]) -> Callable[..., bool]:
        def noting(state: "StateInline", silent: bool) -> bool:
            start = state.pos
            count, has_text = len(state.tokens), bool(state.pending)  # a token before the next
            end_of_label = -1
            if name == "link" and not silent and state.src[start] == "[":
                end_of_label = self._parser.helpers.parseLinkLabel(state, start)
            before = len(self._notes), len(self._breaks)
            found = rule(state, silent)
            if found and not silent:
                end, new = state.pos, state.tokens[count:]
                if name == "link":
                    self._notes.append(_Found(start, start + 1, "link"))
                    # A link by its own text would lose its definition with that.
                    is_own = state.src[end_of_label:end] in ("]", "][]")
                    full = f"][{state.src[start + 1 : end_of_label]}]" if is_own else ""
                    self._notes.append(_Found(end_of_label, end, "/link", full))
                elif name == "image":  # whose text was parsed, too
                    del self._notes[before[0] :], self._breaks[before[1] :]
                    self._notes.append(_Found(start, end))
                elif name == "html_inline":
                    self._notes.append(_Found(start, end, element_name(state.src[start:end])))
                elif name in ("emphasis", "strikethrough"):
                    for token in new[has_text:]:
                        self._places[id(token)] = start
                        start += len(token.content)
                elif new and new[-1].type == "hardbreak":
                    self._breaks.append((start, end))
                elif (new and name in ("backticks", "autolink")) or name == "escape":
                    self._notes.append(_Found(start, end))
            return found

        return noting
