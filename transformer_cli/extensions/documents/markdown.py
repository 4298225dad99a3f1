"""Markdown: paragraphs, headings, list items and table cells, which markdown-it-py finds."""

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.documents.document import (
    CODE_ELEMENTS,
    LEFT_ELEMENTS,
    TEMPLATE,
    Document,
    Segment,
    Source,
    element_name,
    make_segment,
    read_references,
    trim,
)
from transformer_cli.extensions.documents.inline import MATH, find_closing
from transformer_cli.extensions.verbatim.characters import is_of_word
from transformer_cli.text.lines import has_letters

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|$)", re.DOTALL)
_MOST_NESTED = 100  # blocks within blocks; markdown-it reads nothing deeper
_NESTING = ("blockquote_open", "list_item_open")
_BOX = re.compile(r"\[[ xX]\]\s+")  # of a task
_TEMPLATE = f"(?s:{TEMPLATE.pattern})"
# '\[a dog\]' are escaped brackets.
_MATH = (
    r"(?!\\[\[(](?!\w{1,2}\\)(?:[^\\_^=]|\\[^\w\[\]()])*+\\[\])])"
    rf"(?s:{MATH.pattern})"
)
_ATTRIBUTES = r"(?:\{:[^{}\n]*\}|\{ ?(?:[#.]|[\w-]+=)[^{}\n]*\})"  # in kramdown and Pandoc
_MARK = re.compile(
    "|".join(
        (
            rf"(?P<clinging>{_ATTRIBUTES})",
            r"\$`[^`]{1,300}`\$",  # a formula on GitHub
            r"\[\^[^\]\s]{1,100}\]",  # a footnote
            r"\[\[[^\[\]\n]{1,200}\]\]",  # a wiki link
            r"(?<![\w:]):(?=[\w+-]*[a-z])[\w+-]{1,60}:(?![\w:])",  # an emoji or icon
            *(_TEMPLATE, _MATH),
        )
    )
)
_KEPT = re.compile(
    "|".join(
        (
            # For MkDocs and others.
            r"(?:!!!|\?\?\?\+?|:::+|///+|===[+!]?(?= *\")|;*-+8<-+|\*\[[^\]\n]+\]:).*$",
            r"\[\^[^\]\s]{1,100}\]:[ \t]*",  # a footnote
            r"\[!\w[^\]\n]*\].*$",  # a note in GitHub or Obsidian
            rf"{_ATTRIBUTES}\s*?$|\[\[?_?(?:TOC|toc)_?\]?\]$",
            rf"(?!\{{\{{[^<%]|<%=){_TEMPLATE}(?: *{_TEMPLATE})*\s*?$",
            rf"(?=\$\$|\\\[){_MATH}\s*?$",
            r"\\begin\{(?P<name>[\w*]+)\}(?s:(?!\n\s*\n).){0,5000}?\\end\{(?P=name)\}\s*?$",
            r"""import\s++(?:[\w*{}$,\s]{1,500}\sfrom\s*)?(?:"[^"\n]+"|'[^'\n]+');?\s*?$""",  # MDX
        )
    ),
    re.MULTILINE,
)
"""Lines that are markup in some Markdown dialect."""
_BLOCK = re.compile(
    r"^(?:(\d{1,9})(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|>|=+\s*$|[-+*](?:\s|$)|```|~~~"
    r"|[-:|\s]+$|(?:[*_-]\s*){3,}$|\[(?!\^)[^\]]*\]:))"
)
"""The beginning of a text that Markdown may read as a block other than a paragraph."""
_MARKUP = re.compile(r"[\\`*_\[\]<>~$&^{]|==|[+-]{2}(?=\})|:(?=\w+:)")
_BAR = re.compile(r"(?<!\\)\|")
_SPACES = re.compile(r"[ \t\n]+")
_INTERRUPTED = ("paragraph", "reference", "blockquote", "list")
_TEXT = re.compile(r"[^\s\\`*_\[\]<>~$&|=:{}#+!-]+")
"""Text without markup; an entity for such text is written as the text itself."""
_NO_TEXT = re.compile(rf"\s*<(?:[!?]|(?:{'|'.join(LEFT_ELEMENTS)})\b)", re.IGNORECASE)
_HTML = re.compile(rf"<[^<>]*>|{TEMPLATE.pattern}", re.DOTALL)
_TARGET = re.compile(rf"(?:(?<=\]\()|(?<==))(?:[^\s()<>{{}}`]*+{_TEMPLATE})+")
"""A link's address or a value in HTML, up to its last template tag; CommonMark has no templates."""
_DEFINITION = re.compile(
    rf"(?m:^([> \t]*\[(?!\^)[^\]\n]{{1,200}}\]:[ \t]*)((?>(?:[^\s{{}}<]*+{_TEMPLATE})+)\S*)"
    r"""(?=[ \t]*(?:"[^"\n]*"|'[^'\n]*'|\([^)\n]*\))?[ \t]*$))"""
)


class _Found(NamedTuple):
    """An inline tag or entity in a block's content; the tags of a pair are named as in HTML."""

    start: int
    end: int
    name: str | None = ""  # None: it is text
    full: str = ""  # the text to write, if it differs


class MarkdownDocument(Document):
    """A Markdown file to translate, read with markdown-it-py."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._escaping: set[Segment] = set()  # segments whose bars are escaped, as in table cells
        self._inline = _InlineTags(self.name)
        front = _FRONT_MATTER.match(self.text)
        hidden = "\n" * front[0].count("\n") if front else ""
        body = self.text[front.end() :] if front else self.text
        cursors = dict[int, int]()
        for token in self._inline.parse((hidden + body).replace("\r\n", "\n").replace("\r", " ")):
            if token.type == "inline" and token.map:
                self._add_block(token.content, token.map[0], cursors)
            elif token.type == "footnote":
                cursors[token.map[0]] = token.meta["column"]
            elif token.type == "html_block" and not _NO_TEXT.match(token.content):
                if has_letters(read_references(_HTML.sub("", token.content))):
                    self.leave(token.map[0] + 1, "is HTML, which is not translated in Markdown")
            elif token.type in _NESTING and token.level == _MOST_NESTED - 1:
                self.leave(token.map[0] + 1, f"is nested more than {_MOST_NESTED} deep")

    def _add_block(self, content: str, first: int, cursors: dict[int, int]) -> None:
        """Find a block's lines in the file, after prefixes such as '>', and add its segments."""
        offsets: list[int] = []  # of each character of the content
        has_bars = False
        # A line may contain several cells. In other blocks, search from the end: a list item's text
        # may be '1.', too.
        find = str.rfind if "\n" in content else str.find
        for number, part in enumerate(content.split("\n"), start=first):
            raw = self.lines[number] if number < len(self.lines) else ""
            cursor = cursors.get(number, 0)
            at, written = find(raw, part, cursor), part
            if at < 0:  # in a table, the text's bars are escaped
                written, has_bars = part.replace("|", r"\|"), True
                at = raw.find(written, cursor)
            if at < 0:
                self.leave(first + 1, "its text was not found in the file")
                return
            cursors[number] = at + len(written)
            widths = (1 + (sign == "|" and written != part) for sign in part)
            offsets += accumulate(widths, initial=self.starts[number] + at)
        found, breaks = self._inline.find(content)
        box = _BOX.match(content)
        edges = [box.end() if box else 0, *(e for each in breaks for e in each), len(content)]
        tag_starts, line, counted = [tag.start for tag in found], first + 1, 0
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            start, last = trim(content, start, end)
            pieces, place = list[tuple[str, str | None]](), start
            for tag in found[bisect_left(tag_starts, start) : bisect_left(tag_starts, last)]:
                if tag.end <= last:
                    pieces.append((content[place : tag.start], None))
                    pieces.append((tag.full or content[tag.start : tag.end], tag.name))
                    place = tag.end
            pieces.append((content[place:last], None))
            on_one_line = ((piece.replace("\n", " "), name) for piece, name in pieces)
            line, counted = line + content.count("\n", counted, start), start
            segment = make_segment(on_one_line, self.place(line), str)
            self.add_span(segment, offsets[start], offsets[last])
            if has_bars:
                self._escaping.add(segment)

    def shape(self, segment: Segment) -> Hashable:
        """Return the tags, except for escapes, because ``written`` may add escapes."""
        return tuple(sorted(_without_escapes(segment.tag_texts)))

    def written(self, segment: Segment, text: str) -> str:
        """Return a translation, escaped so that only its tags are read as markup, if possible."""
        parts = segment.change(text, lambda part: _SPACES.sub(" ", part))
        expected = _without_escapes(parts[1::2])
        for spelling in self._spellings(segment, parts):
            joined = "".join(spelling)
            found = (tag for tag in self._inline.find(joined)[0] if tag.name is not None)
            if _without_escapes(joined[tag.start : tag.end] for tag in found) == expected:
                parts = spelling
                break
        if segment in self._escaping:
            parts = [part.replace("|", r"\|") for part in parts]
        elif "|" not in segment.text:  # the text may be in a table
            parts[::2] = [_BAR.sub(r"\|", part) for part in parts[::2]]
        joined = "".join(parts)
        begins_kept_line = parts[0] and _KEPT.match(joined) and not joined[0].isalpha()
        return f"\\{joined}" if begins_kept_line else _BLOCK.sub(r"\1\\", joined, count=1)

    def _spellings(self, segment: Segment, parts: list[str]) -> Iterator[list[str]]:
        """Yield ways to write ``parts``: as is, with spaces around tags, with escapes, and both."""
        yield parts
        spaced = _with_spaces(parts, segment)
        yield spaced
        for one in (parts, spaced):
            one = list(one)
            one[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in one[::2]]
            yield one


def _find_marks(content: str) -> Iterator[_Found]:
    """Yield the inline markup that some Markdown dialects add."""
    for match in _MARK.finditer(content):
        yield _Found(*match.span(), match.lastgroup or element_name(match[0]))


def _without_escapes(tags: Iterable[str]) -> list[str]:
    return [tag for tag in tags if tag[0] != "\\" or len(tag) > 2]


def _with_spaces(parts: Sequence[str], segment: Segment) -> list[str]:
    """Add a space where a tag touches a word or another tag that is outside its pair."""
    closes = find_closing(segment)
    spaced, waiting = [parts[0]], list[set[str]]()
    may_follow = True  # whether a space may stand before the next tag
    for tag, text in zip(parts[1::2], parts[2::2], strict=True):
        is_closing = bool(waiting) and tag in waiting[-1]
        if is_closing:
            waiting.pop()
        elif tag in closes:
            waiting.append(closes[tag])
        before = spaced[-1]
        touches = is_of_word(before[-1:]) or (not before and len(spaced) > 1 and may_follow)
        if touches and not is_closing:
            spaced[-1] += " "
        may_follow = is_closing or tag not in closes
        spaced += [tag, " " + text if may_follow and is_of_word(text[:1]) else text]
    return spaced


def _keep_lines(state: "StateBlock", first: int, end: int, silent: bool) -> bool:
    """Parse, as a rule of markdown-it, lines that are markup in a dialect, or footnote labels."""
    start = state.bMarks[first] + state.tShift[first]
    limit = state.eMarks[end - 1]
    match = None if state.is_code_block(first) else _KEPT.match(state.src, start, limit)
    following = first + 1 + state.src.count("\n", start, match.end() if match else start)
    if match is None or following > end:
        return False
    if silent:
        return True
    if match[0].startswith("[^"):
        token = state.push("footnote", "", 0)
        line_start = state.src.rfind("\n", 0, start) + 1
        token.map, token.meta = [first, first + 1], {"column": match.end() - line_start}
        old = state.blkIndent, state.bMarks[first], state.tShift[first], state.sCount[first]
        state.blkIndent = state.sCount[first] + 2
        state.bMarks[first], state.tShift[first] = match.end(), 0
        state.sCount[first] = state.blkIndent
        state.md.block.tokenize(state, first, end)
        state.blkIndent, state.bMarks[first], state.tShift[first], state.sCount[first] = old
    state.line = max(state.line, following)
    return True


class _InlineTags:
    """A wrapper around markdown-it-py that notes where each inline rule has matched."""

    def __init__(self, name: str) -> None:
        markdown_it = import_extra("markdown_it", "documents", name)
        self._parser: MarkdownIt = markdown_it.MarkdownIt("commonmark")
        self._parser.enable(["table", "strikethrough"])
        # Deeper content is lost.
        self._parser.options["maxNesting"] = _MOST_NESTED
        self._parser.block.ruler.before("table", "kept", _keep_lines, {"alt": list(_INTERRUPTED)})
        for rule in self._parser.inline.ruler.__rules__:
            rule.fn = self._noting(rule.name, rule.fn)
        self._env: dict[str, Any] = {}
        self._notes: list[_Found] = []
        self._breaks: list[tuple[int, int]] = []
        self._places: dict[int, int] = {}  # offsets of tokens, by the tokens' identity

    def parse(self, text: str) -> Sequence[Any]:
        """Return the block tokens of a text; keep its link definitions for ``find``."""
        masked = _DEFINITION.sub(lambda match: match[1] + re.sub(".", "x", match[2]), text)
        return self._parser.parse(masked, self._env)

    def find(self, content: str) -> tuple[list[_Found], list[tuple[int, int]]]:
        """Return the tags of a block's content, and its hard line breaks, both in order."""
        self._notes, self._breaks, self._places = [], [], {}
        tokens: list[Any] = []
        masked = _TARGET.sub(lambda match: "x" * len(match[0]), content)
        self._parser.inline.parse(masked, self._parser, self._env, tokens)
        notes = [*self._notes, *self._delimiters(tokens), *_find_marks(content)]
        kept: list[_Found] = []
        for note in sorted(notes, key=lambda note: (note.start, -note.end)):
            touching = (kept[-1].name, note.name) if kept and kept[-1].end == note.start else ()
            if kept and kept[-1].name in CODE_ELEMENTS:  # extend the tag over its content
                is_end = note.name == f"/{kept[-1].name}"
                end = max(kept[-1].end, note.end)
                kept[-1] = _Found(kept[-1].start, end, "" if is_end else kept[-1].name)
            elif touching and note.name == "clinging" and kept[-1].name is not None:
                full = kept[-1].full and kept[-1].full + content[note.start : note.end]
                kept[-1] = kept[-1]._replace(end=note.end, full=full)
            elif touching in (("em", "strong"), ("/strong", "/em")):  # as in ***text***
                half = "/" if note.name == "/em" else ""
                kept[-1] = _Found(kept[-1].start, note.end, f"{half}both")
            elif not kept or note.start >= kept[-1].end:  # skip notes within code or an image
                kept.append(note)
        starts = [note.start for note in kept]
        ends = [0, *(note.end for note in kept)]
        # Breaks within <code> are parts of its tag.
        breaks = [one for one in self._breaks if ends[bisect_left(starts, one[0])] <= one[0]]
        return kept, breaks

    def _delimiters(self, tokens: Sequence[Any]) -> Iterator[_Found]:
        for token in tokens:
            kind, _, half = token.type.rpartition("_")
            if kind in ("em", "strong", "s") and id(token) in self._places:
                start, size = self._places[id(token)], len(token.markup)
                # Of the two delimiters that make <strong>, the second opens, and the first closes.
                start -= half == "open" and kind == "strong"
                yield _Found(start, start + size, kind if half == "open" else f"/{kind}")

    def _noting(self, name: str, rule: Callable[..., bool]) -> Callable[..., bool]:
        def noting(state: "StateInline", silent: bool) -> bool:
            start = state.pos
            count, has_text = len(state.tokens), bool(state.pending)  # pending text becomes a token
            end_of_label = -1
            if name == "link" and not silent and state.src[start] == "[":
                end_of_label = self._parser.helpers.parseLinkLabel(state, start)
            before = len(self._notes), len(self._breaks)
            found = rule(state, silent)
            if found and not silent:
                end, new = state.pos, state.tokens[count:]
                if name == "link":
                    self._notes.append(_Found(start, start + 1, "link"))
                    # A link with its own text as label would lose its definition if the text
                    # changed.
                    is_own = state.src[end_of_label:end] in ("]", "][]")
                    full = f"][{state.src[start + 1 : end_of_label]}]" if is_own else ""
                    self._notes.append(_Found(end_of_label, end, "/link", full))
                elif name == "image":  # its text was parsed, too
                    del self._notes[before[0] :], self._breaks[before[1] :]
                    self._notes.append(_Found(start, end))
                elif name == "html_inline":
                    self._notes.append(_Found(start, end, element_name(state.src[start:end])))
                elif name in ("emphasis", "strikethrough"):
                    for token in new[has_text:]:
                        self._places[id(token)] = start
                        start += len(token.content)
                elif name == "entity":
                    is_text = _TEXT.fullmatch(state.tokens[-1].content)
                    full = state.tokens[-1].content if is_text else ""
                    self._notes.append(_Found(start, end, None if is_text else "", full))
                elif new and new[-1].type == "hardbreak":
                    self._breaks.append((start, end))
                elif (new and name in ("backticks", "autolink")) or name == "escape":
                    self._notes.append(_Found(start, end))
            return found

        return noting
