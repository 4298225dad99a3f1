"""Markdown: paragraphs, headings, list items and cells of tables; markdown-it-py finds them."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer_cli.documents.document import (
    LETTER,
    Document,
    Edit,
    Filling,
    Segment,
    Source,
    Tag,
    pair_elements,
    splice,
)
from transformer_cli.packages import import_extra

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_ELEMENT = re.compile(r"<(/?[A-Za-z][\w-]*)(?![^>]*/>)")
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


class MarkdownDocument(Document):
    """A Markdown file."""

    def __init__(self, source: Source) -> None:
        self.encoding = source.encoding_by_mark() or "utf-8"
        self._name, self._text = source.name, source.decode(self.encoding)
        self.segments, self.left = [], []
        self._blocks: list[tuple[int, int, bool]] = []  # span, and whether bars in it are escaped
        self._inline = _InlineTags(self._name)
        front = _FRONT_MATTER.match(self._text)
        hidden = "\n" * front[0].count("\n") if front else ""
        body = self._text[front.end() :] if front else self._text.removeprefix("\ufeff")
        lines = re.split(r"(?<=\n)", self._text)
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
                self.left.append(f"{self._name}:{first + 1}: its text cannot be found again")
                return
            cursors[number] = at + len(written)
            widths = (1 + (sign == "|" and written != part) for sign in part)
            offsets += accumulate(widths, initial=starts[number] + at)
        found, breaks = self._inline.find(content)
        edges = [0, *(edge for each in breaks for edge in each), len(content)]
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            inside = [tag for tag in found if start <= tag.start and tag.end <= end]
            text = content[start:end]
            left = len(text) - len(text.lstrip())
            start, text = start + left, text.strip()
            plain = list(text)
            for tag in inside:
                plain[tag.start - start : tag.end - start] = " " * (tag.end - tag.start)
            if LETTER.search("".join(plain)):
                halves = pair_elements([tag.name for tag in inside])
                tags = tuple(
                    Tag(tag.start - start, tag.end - start, *half)
                    for tag, half in zip(inside, halves, strict=True)
                )
                line = first + content.count("\n", 0, start) + 1
                place = f"{self._name}:{line}"
                self.segments.append(Segment(re.sub(r"\s", " ", text), place, tags))
                span = offsets[start], offsets[start + len(text)]
                self._blocks.append((*span, has_bars))

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the file; what would read as markup in a translation is escaped."""
        edits = []
        for segment, (start, end, has_bars), filling in zip(
            self.segments, self._blocks, fillings, strict=True
        ):
            if filling is not None:
                parts = segment.split(filling.text)
                parts[::2] = [_SPACES.sub(" ", part) for part in parts[::2]]
                found, _ = self._inline.find("".join(parts))
                if len(found) != len(segment.tags):
                    parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
                if has_bars:
                    parts = [part.replace("|", r"\|") for part in parts]
                elif "|" not in segment.text:  # it might be in a table
                    parts[::2] = [_BAR.sub(r"\|", part) for part in parts[::2]]
                text = _BLOCK.sub(r"\1\\", "".join(parts), count=1)
                edits.append(Edit(start, end, text))
        return splice(self._text, edits).encode(self.encoding)


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
        """Return the tags of a block's content, and its hard line breaks, in order."""
        self._notes, self._breaks, self._places = [], [], {}
        tokens: list[Any] = []
        self._parser.inline.parse(content, self._parser, self._env, tokens)
        notes = [*self._notes, *self._delimiters(tokens)]
        notes += [_Found(*match.span()) for match in _FOOTNOTE.finditer(content)]
        kept: list[_Found] = []
        for note in sorted(notes, key=lambda note: (note.start, -note.end)):
            touching = (kept[-1].name, note.name) if kept and kept[-1].end == note.start else ()
            if touching in (("em", "strong"), ("/strong", "/em")):  # as in ***text***
                half = note.name[: note.name.find("/") + 1]
                kept[-1] = _Found(kept[-1].start, note.end, f"{half}both")
            elif not kept or note.start >= kept[-1].end:  # not what is in code or in an image
                kept.append(note)
        return kept, sorted(self._breaks)

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
            count = len(state.tokens) + bool(state.pending)  # which is a token before the next
            end_of_label = -1
            if name == "link" and not silent and state.src[start] == "[":
                end_of_label = self._parser.helpers.parseLinkLabel(state, start)
            before = len(self._notes), len(self._breaks)
            found = rule(state, silent)
            if found and not silent:
                end, new = state.pos, state.tokens[count:]
                if name == "link":
                    self._notes.append(_Found(start, start + 1, "link"))
                    self._notes.append(_Found(end_of_label, end, "/link"))
                elif name == "image":  # whose text was parsed, too
                    del self._notes[before[0] :], self._breaks[before[1] :]
                    self._notes.append(_Found(start, end))
                elif name == "html_inline":
                    element = _ELEMENT.match(state.src, start)
                    self._notes.append(_Found(start, end, element[1].lower() if element else ""))
                elif name in ("emphasis", "strikethrough"):
                    for token in new:
                        self._places[id(token)] = start
                        start += len(token.content)
                elif new and new[-1].type == "hardbreak":
                    self._breaks.append((start, end))
                elif (new and name in ("backticks", "autolink")) or name == "escape":
                    self._notes.append(_Found(start, end))
            return found

        return noting
