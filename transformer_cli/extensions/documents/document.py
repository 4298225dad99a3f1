"""What all formats share: segments with inline tags, and bytes of which only spans are replaced."""

import codecs
import html as references
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, Self

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.corpora.charsets import find_encoding
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim
from transformer_cli.text.lines import has_letters

MAX_BYTES = 1 << 26  # of a document, which is held in memory as a whole

LOW_CONFIDENCE = 0.5
"""Below this a person should review a translation: its tokens are less likely than not."""

CODE_ELEMENTS = ("code", "kbd", "samp", "tt", "var")
LEFT_ELEMENTS = (
    *(*CODE_ELEMENTS, "iframe", "math", "noscript", "object", "pre", "ruby", "script", "style"),
    *("svg", "template", "textarea"),
)
"""Elements of HTML whose text is not translated."""

TEMPLATE = re.compile(
    "|".join(
        rf"{start}(?:(?!</).){{0,500}}?{end}"
        for start, end in (
            *((r"\{%", r"%\}"), (r"\{\{</?", r">\}\}"), (r"\{\{", r"\}\}+")),
            *((r"\{#", r"#\}"), ("<%", "%>"), (r"<\?", r"\?>")),
        )
    ),
    re.DOTALL,
)
"""What a template engine reads in HTML or Markdown, as Jinja, Liquid, Hugo, ERB or PHP."""
_ELEMENT = re.compile(r"<(/?)([A-Za-z][\w:-]*+)(?![^>]*/>)|\{%[-+]?\s*+(end)?(\w++)")
_MARKS = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
SOFT_HYPHEN = "\xad"
_ACCELERATOR = re.compile(r"(?<![^\s(\[\"'„“«>])([^\W\d_]*+)([&_~])(?!(?<=&)\w++;)(?=[^\W\d_])")
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Tag(NamedTuple):
    """An inline tag, by its span in a segment's text; a pair's share their key."""

    start: int
    end: int
    kind: Literal["open", "close", "alone"] = "alone"
    key: str = ""


@dataclass(frozen=True)
class Segment:
    """A text to translate, without the escapes of its format; its tags are as they stand there."""

    text: str  # line breaks are in it only where they matter
    place: str  # for messages, as in 'de.po:12'
    tags: tuple[Tag, ...] = ()  # in order; they do not overlap

    @property
    def tag_texts(self) -> list[str]:
        """The tags' markup, in order."""
        return [self.text[tag.start : tag.end] for tag in self.tags]

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        texts = sorted(set(self.tag_texts), key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None

    def split(self, text: str) -> list[str]:
        """Return a translation's text and tags by turns, beginning and ending with text."""
        return self._pattern.split(text) if self._pattern else [text]

    def change(self, text: str, change: Callable[[str], str]) -> list[str]:
        """Return what ``split`` does, with the text between tags changed."""
        parts = self.split(text)
        parts[::2] = map(change, parts[::2])
        return parts

    @property
    def plain(self) -> str:
        """The text without its tags."""
        starts = [0, *(tag.end for tag in self.tags)]
        ends = [*(tag.start for tag in self.tags), len(self.text)]
        return "".join(map(self.text.__getitem__, map(slice, starts, ends)))

    @property
    def has_letters(self) -> bool:
        """True if there are letters between the tags."""
        return has_letters(self.plain)

    def without_soft_hyphens(self) -> "Segment":
        """Return the segment without soft hyphens in its words, which few models have seen."""
        if SOFT_HYPHEN not in self.text:
            return self
        text, place, tags = "", 0, []
        for tag in self.tags:
            text += self.text[place : tag.start].replace(SOFT_HYPHEN, "")
            written, place = self.text[tag.start : tag.end], tag.end
            tags.append(tag._replace(start=len(text), end=len(text) + len(written)))
            text += written
        text += self.text[place:].replace(SOFT_HYPHEN, "")
        return replace(self, text=text, tags=tuple(tags))

    @property
    def is_ambiguous(self) -> bool:
        """True if something in the text looks like one of the tags, as '&lt;b&gt;' beside <b>."""
        return self.split(self.text)[1::2] != self.tag_texts


@dataclass(frozen=True)
class Filling:
    """What is to be written as a segment's translation."""

    text: str  # with the segment's tags, each as often as there
    origin: Literal["model", "memory"] = "model"  # where the text is from
    comment: str = ""  # for a person, on one line; formats without comments have none
    problem: str = ""  # how its placeholders differ from the source's; empty if they are the same
    match: "Match | None" = None  # what the translation memory has that is like the segment
    confidence: float | None = None
    """Mean probability that the model gives its tokens, geometric; None: not its own."""
    coverage: float | None = None
    """Share of the source's words that its words are aligned to; None: not aligned."""
    doubts: tuple[str, ...] = ()  # what is doubtful about its sentences
    is_aligned: bool = False  # whether alignments placed its tags or placeholders
    loses_numbers: bool = False  # whether it lacks numbers of the source

    @property
    def is_unsure(self) -> bool:
        """True if the model gives its tokens a low probability."""
        return self.confidence is not None and self.confidence < LOW_CONFIDENCE

    @property
    def has_to_be_read(self) -> bool:
        """True if something is known to be doubtful about it."""
        return bool(self.problem or self.loses_numbers or self.doubts or self.is_unsure)

    @property
    def assurance(self) -> tuple[bool, bool, float]:
        """What translations are sorted by: known doubts, then confidence, then the memory's."""
        return not self.has_to_be_read, self.origin == "memory", self.confidence or 0.0


class Match(NamedTuple):
    """What a translation memory has that is like a text."""

    src: str
    tgt: str
    percent: int  # similarity; 100 is the same text, white space aside


class Edit(NamedTuple):
    """A span of a document's text, and what is to stand there."""

    start: int
    end: int
    text: str


class Part(NamedTuple):
    """A part of a document's structure, such as a run of text or an entry."""

    shape: Hashable
    """What filling must not change, and where the part is, so that all shapes differ."""
    segments: range = range(0)  # the numbers of the segments whose translations stand in it


@dataclass(frozen=True)
class Source:
    """A document as it was read."""

    name: str  # for messages
    data: bytes  # its bytes
    languages: tuple[str, str]  # of the run, source and target
    marks_fuzzy: bool = True  # whether what is filled is marked for a person to look at

    def decode(self, declared: str | None) -> tuple[str, str]:
        """Return the text, which gives the same bytes again, and its encoding.

        ``declared`` is what the document says; None: nothing.
        """
        named, advice = (
            "utf-8",
            "convert it with iconv -f NAME -t UTF-8",
        )
        if declared is not None:
            named, advice = (
                find_encoding(declared) or "",
                "correct the encoding that it declares, or convert it to UTF-8",
            )
        if not named:
            raise InputError(
                f"{self.name}: declares the encoding '{(declared or '')[:40]}', which cannot be "
                "used; convert the file to UTF-8"
            )
        by_mark = (name for mark, name in _MARKS.items() if self.data.startswith(mark))
        encoding = next(by_mark, named)
        try:
            text = self.data.decode(encoding)
            if text.encode(encoding) == self.data:
                return text, encoding
        except UnicodeDecodeError as error:
            line, bad = self.data.count(b"\n", 0, error.start) + 1, self.data[error.start]
            raise InputError(
                f"{self.name}:{line}: not {encoding} (byte 0x{bad:02x}); {advice}"
            ) from None
        except (UnicodeError, LookupError):
            pass
        raise InputError(f"{self.name}: the file is not {encoding}; convert it to UTF-8")


class Document:
    """A document, of whose text spans are replaced; everything else stays the same bytes."""

    needs_words = True  # whether a run of text is a segment only if there are words in it
    has_references = False
    """Whether the format has references for characters that its encoding lacks."""

    def __init__(self, source: Source, declared: str | None = None) -> None:
        """Decode the text, which declares an encoding or not; see ``Source.decode``."""
        self._source = source
        self.name, self.languages = source.name, source.languages
        self.segments: list[Segment] = []
        """What is to be translated, in order."""
        self.left: list[str] = []
        """Why something that is not translated yet is no segment, each with its place."""
        text, self._codec = source.decode(declared)
        self.encoding = "utf-8" if self.has_references else self._codec
        """What translations have to be written in."""
        self.text = text.removeprefix("\ufeff")
        self._mark = text[: len(text) - len(self.text)]
        self.lines = re.split(r"(?<=\n)", self.text)
        self.starts = [0, *accumulate(map(len, self.lines))]
        self.new_line = "\r\n" if self.lines[0].endswith("\r\n") else "\n"
        self._units: list[tuple[range, Callable[[Sequence[Filling]], list[Edit]]]] = []
        self._runs: list[tuple[int, int, Hashable, range]] = []

    def place(self, line: int) -> str:
        """Return where a line is, for messages; lines are numbered from 1."""
        return f"{self.name}:{line}"

    def leave(self, line: int, why: str) -> None:
        """Note why something in a line is not translated."""
        self.left.append(f"{self.place(line)}: {why}")

    def error(self, line: int, problem: str) -> InputError:
        """Return an error about a line."""
        return InputError(f"{self.place(line)}: {problem}")

    def read_again(self, data: bytes) -> Self:
        """Read the document as ``write`` has written it."""
        return type(self)(replace(self._source, data=data))

    def add_unit(
        self, segments: Sequence[Segment], write: Callable[[Sequence[Filling]], list[Edit]]
    ) -> None:
        """Add segments that are written together, once all of them are filled."""
        first = len(self.segments)
        self.segments += segments
        self._units.append((range(first, len(self.segments)), write))

    def add_span(self, segment: Segment, start: int, end: int) -> None:
        """Add a run of text, whose translation takes its place if it is a segment."""
        first = len(self.segments)
        if segment.has_letters or not self.needs_words:
            unit = [segment]
            self.add_unit(unit, lambda to: [Edit(start, end, self.written(segment, to[0].text))])
        self.add_run(start, end, self.shape(segment), range(first, len(self.segments)))

    def add_run(self, start: int, end: int, shape: Hashable, segments: range) -> None:
        """Add a span in which segments stand, and what filling must not change of it."""
        self._runs.append((start, end, shape, segments))

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """Return a span of the text without the white space at its ends."""
        text = self.text[start:end]
        first = start + len(text) - len(text.lstrip())
        return first, max(first, end - len(text) + len(text.rstrip()))

    def shape(self, segment: Segment) -> Hashable:
        """Return what a segment's translation must have in common with it."""
        return tuple(sorted(segment.tag_texts))

    def structure(self, fillings: Sequence[Filling | None] = ()) -> list[Part]:
        """Return the parts that the document has, or will have with each segment's translation.

        A document that ``write`` has written and ``read_again`` has read has parts of these shapes.
        """
        edits = self._edits(fillings)
        ends = [edit.end for edit in edits]
        shifts = [0, *accumulate(len(new) - (end - start) for start, end, new in edits)]
        parts = []
        for start, end, shape, segments in self._runs:
            span = (place + shifts[bisect_right(ends, place)] for place in (start, end))
            parts.append(Part((*span, shape), segments))
        return parts

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the document with each segment's translation; None leaves what was there."""
        return (self._mark + splice(self.text, self._edits(fillings))).encode(self._codec)

    def _edits(self, fillings: Sequence[Filling | None]) -> list[Edit]:
        """Return what is filled, in order."""
        edits: list[Edit] = []
        for places, write in self._units if fillings else ():
            filled = [filling for place in places if (filling := fillings[place]) is not None]
            if len(filled) == len(places):
                edits += write(filled)
        edits.sort()
        # First, as what goes before a document goes before what goes before its first part.
        edits = sorted(self.final_edits(edits) + edits, key=lambda edit: edit[:2]) if edits else []
        # Formats without references are not asked to write such characters but in comments.
        lacking = "xmlcharrefreplace" if self.has_references else "replace"
        codec = self._codec
        return [one._replace(text=one.text.encode(codec, lacking).decode(codec)) for one in edits]

    def written(self, segment: Segment, text: str) -> str:
        """Return a segment's translation as it stands in the document."""
        return text

    def final_edits(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return what else is to be set where anything is filled."""
        return []


class LinesDocument(Document):
    """Plain text, a sentence a line, for a translation memory and pages of all translations."""

    needs_words = False  # as a memory may have numbers, too

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        for number, (first, behind) in enumerate(pairwise(self.starts), start=1):
            start, end = self.trim(first, behind)
            if start < end:
                self.add_span(Segment(self.text[start:end], self.place(number)), start, end)


def element_name(tag: str) -> str:
    """Return the name of a tag's element, / before it at its end; empty: it stands alone."""
    element = _ELEMENT.match(tag)
    if element is None:
        return ""
    slash, name, end, template = element.groups()
    return f"{slash}{name.lower()}" if name else f"{'/' if end else ''}%{template}"


def pair_tags(found: Iterable[tuple[int, int, str]]) -> tuple[Tag, ...]:
    """Return tags of these spans and ``element_name``s; what crosses pairs stands alone."""
    tags: list[Tag] = []
    opened: list[int] = []
    names: list[str] = []
    waiting: Counter[str] = Counter()
    for number, (start, end, name) in enumerate(found):
        tags.append(Tag(start, end))
        names.append(name)
        if name and name[0] != "/":
            opened.append(number)
            waiting[f"/{name}"] += 1
        elif name and waiting[name]:
            place = number
            while place == number or f"/{names[place]}" != name:
                place = opened.pop()
                waiting[f"/{names[place]}"] -= 1
            tags[place] = tags[place]._replace(kind="open", key=str(place))
            tags[number] = Tag(start, end, "close", str(place))
    return tuple(tags)


def make_segment(
    pieces: Iterable[tuple[str, str | None]], place: str, read: Callable[[str], str]
) -> Segment:
    """Return a segment of text, which ``read`` frees of escapes, and of tags with their names."""
    text, raw = "", ""  # of '&amp;' html.parser makes a piece of its own
    found: list[tuple[int, int, str]] = []
    for written, name in pieces:
        if name is None:
            raw += written
        else:
            text += join_lines(read(raw))  # appends in place, which 'text = text + ...' would not
            found.append((len(text), len(text) + len(written), name))
            text += written
            raw = ""
    return Segment(text + join_lines(read(raw)), place, pair_tags(found))


def mark_accelerator(text: str, place: str, escape: Callable[[str], str] = str) -> Segment:
    """Return a segment whose accelerator's sign, as in '_File', '&File' or 'E~xit', is a tag.

    A sign within a word goes before it. ``escape`` writes the sign as it stands in the file. Text
    with more such signs has no tag, as they are something else: '_emphasis_', '~/a or ~/b'.
    """
    # A placeholder is covered by its last character, as in '<a target="_blank">_File</a>'.
    covers = (Edit(at, end, one[-1] * len(one)) for one, at, end in find_verbatim(text))
    covered = splice(text, covers)
    first_space = next((match.start() for match in _SPACES.finditer(covered)), len(text))

    def is_accelerator(match: re.Match[str]) -> bool:
        """Return whether it is in 'E_xit' or 'Cl_ose it', not in 'Max_size (kB)' or 'IPv_four'."""
        start, end = match[1], match.end()
        word_end = end if len(start) <= 2 else len(text)
        is_in_word = start.istitle() and covered[end].islower() and first_space >= word_end
        return not start or is_in_word

    found = [*filter(is_accelerator, _ACCELERATOR.finditer(covered))]
    plain = Segment(text, place)
    if len(found) != 1:
        return plain
    (start, sign), (at, end) = found[0].groups(), found[0].span()
    tag = escape(sign)
    marked = f"{text[:at]}{tag}{start}{text[end:]}"
    segment = Segment(marked, place, (Tag(at, at + len(tag)),))
    return plain if segment.is_ambiguous else segment


def join_lines(text: str) -> str:
    """Return a text with a space for each line break and the white space around it."""
    # Not \s*\n\s*, which takes time by the square of spaces.
    return _SPACES.sub(lambda spaces: " " if "\n" in spaces[0] else spaces[0], text)


def without_controls(text: str) -> str:
    """Return a text with spaces or U+FFFD for what no XML file can hold, and no person wants."""
    return _CONTROLS.sub(lambda sign: " " if sign[0].isspace() else "\ufffd", text)


def read_references(raw: str) -> str:
    """Return a text of HTML without its character references."""
    try:
        return references.unescape(raw)
    except ValueError:  # of thousands of digits
        return raw


def splice(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with spans of it replaced, which are in order and do not overlap."""
    pieces, place = [], 0
    for start, end, new in edits:
        assert start >= place
        pieces += [text[place:start], new]
        place = end
    return "".join((*pieces, text[place:]))
