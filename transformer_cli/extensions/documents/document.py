"""The base of all document formats: segments with inline tags, and spans of text to replace."""

import codecs
import html as references
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, Self

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.corpora.units import find_encoding
from transformer_cli.extensions.verbatim.verbatim_parts import find_verbatim
from transformer_cli.text.lines import has_letters

MAX_BYTES = 1 << 26  # of a document, which is held in memory as a whole

LOW_CONFIDENCE = 0.5
"""Translations with less confidence need review: their tokens are more likely wrong than right."""

CODE_ELEMENTS = ("code", "kbd", "samp", "tt", "var")
LEFT_ELEMENTS = (
    *(*CODE_ELEMENTS, "iframe", "math", "noscript", "object", "pre", "ruby", "script", "style"),
    *("svg", "template", "textarea"),
)
"""HTML elements whose text is not translated."""

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
"""Template tags in HTML or Markdown, such as those of Jinja, Liquid, Hugo, ERB or PHP."""
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
    """An inline tag's span in a segment's text; the two tags of a pair share a key."""

    start: int
    end: int
    kind: Literal["open", "close", "alone"] = "alone"
    key: str = ""


@dataclass(frozen=True)
class Segment:
    """A text to translate, without escapes, but with inline tags as written in the document."""

    text: str  # contains line breaks only where they matter
    place: str  # for messages, for example 'de.po:12'
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
        """Split a translation into alternating text and tags; the first and last parts are text."""
        return self._pattern.split(text) if self._pattern else [text]

    def change(self, text: str, change: Callable[[str], str]) -> list[str]:
        """Return the parts from ``split``, with ``change`` applied to the text between tags."""
        parts = self.split(text)
        parts[::2] = map(change, parts[::2])
        return parts

    @property
    def gaps(self) -> Iterator[tuple[int, int]]:
        """The spans of text before, between and after the tags."""
        starts = [0, *(tag.end for tag in self.tags)]
        return zip(starts, [*(tag.start for tag in self.tags), len(self.text)], strict=True)

    @property
    def plain(self) -> str:
        """The text without its tags."""
        return "".join(self.text[start:end] for start, end in self.gaps)

    @property
    def has_letters(self) -> bool:
        """True if there are letters between the tags."""
        return has_letters(self.plain)

    def without_soft_hyphens(self) -> "Segment":
        """Return the segment without soft hyphens, which few models have seen."""
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
        """True if some text looks like one of the tags, for example '&lt;b&gt;' near a tag <b>."""
        return self.split(self.text)[1::2] != self.tag_texts


@dataclass(frozen=True)
class Filling:
    """The translation to write for a segment, its origin, and what a reviewer should know of it."""

    text: str  # has each tag as often as the segment
    origin: Literal["model", "memory"] = "model"  # the source of the text
    comment: str = ""  # for a person, on one line; formats without comments ignore it
    problem: str = ""  # how its placeholders differ from the source's; empty if they are the same
    match: "Match | None" = None  # the most similar pair in the translation memory
    confidence: float | None = None
    """See ``LineTranslator.estimate``; None if the text is not the model's."""
    coverage: float | None = None
    """Fraction of source words aligned to words of the translation; None if none were aligned."""
    doubts: tuple[str, ...] = ()  # why its sentences are doubtful
    is_aligned: bool = False  # whether alignments placed its tags or placeholders
    loses_numbers: bool = False  # whether it lacks numbers of the source

    @property
    def is_unsure(self) -> bool:
        """True if the model's confidence is lower than ``LOW_CONFIDENCE``."""
        return self.confidence is not None and self.confidence < LOW_CONFIDENCE

    @property
    def has_to_be_read(self) -> bool:
        """True if a person should review the translation, because of a known problem or doubt."""
        return bool(self.problem or self.loses_numbers or self.doubts or self.is_unsure)

    @property
    def assurance(self) -> tuple[bool, bool, float]:
        """Sort key: doubtful translations, then the model's by confidence, then the memory's."""
        return not self.has_to_be_read, self.origin == "memory", self.confidence or 0.0


class Match(NamedTuple):
    """A pair in a translation memory, with a source text similar to a segment."""

    src: str
    tgt: str
    percent: int  # similarity; 100 is the same text, apart from white space


class Edit(NamedTuple):
    """A span of a document's text, and the text that replaces it."""

    start: int
    end: int
    text: str


class Part(NamedTuple):
    """A part of a document, such as a PO entry, for checks that translating keeps all parts."""

    shape: Hashable
    """What inserting translations must not change, such as tags; unique, as it has the position."""
    segments: range = range(0)  # the indices of the segments whose translations are in it


@dataclass(frozen=True)
class Source:
    """A document's bytes, and settings for reading it."""

    name: str  # for messages
    data: bytes  # its bytes
    languages: tuple[str, str]  # the run's source and target language
    marks_fuzzy: bool = True  # whether new translations are marked for review

    def decode(self, declared: str | None) -> tuple[str, str]:
        """Decode the bytes; return the text and an encoding that gives the same bytes again.

        ``declared`` is the encoding that the document declares, or None. Raises InputError if that
        is not supported, or the bytes are invalid.
        """
        named, advice = "utf-8", "convert it with iconv -f NAME -t UTF-8"
        marked = next((name for mark, name in _MARKS.items() if self.data.startswith(mark)), None)
        if declared is not None and not marked:  # a byte order mark counts more, as in browsers
            named = find_encoding(declared) or ""
            advice = "correct the declared encoding, or convert the file to UTF-8"
            if not named:
                raise InputError(
                    f"{self.name}: declares the encoding '{declared[:40]}', which is not "
                    "supported; convert the file to UTF-8"
                )
        encoding = marked or named
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
    """A document in which spans of text are replaced; all other bytes stay the same."""

    needs_words = True  # whether only runs of text with words are segments
    has_references = False
    """Whether a character that the encoding lacks can be written as a reference, as in HTML."""

    def __init__(self, source: Source, declared: str | None = None) -> None:
        """Decode the text; ``declared`` is as in ``Source.decode``."""
        self._source = source
        self.name, self.languages = source.name, source.languages
        self.segments: list[Segment] = []
        """The segments to translate, in order."""
        self.left: list[str] = []
        """Texts that are not segments and are not translated, each as 'location: reason'."""
        text, self._codec = source.decode(declared)
        self.encoding = "utf-8" if self.has_references else self._codec
        """The encoding that must have all characters of the translations."""
        self.text = text.removeprefix("\ufeff")
        self._mark = text[: len(text) - len(self.text)]
        self.lines = re.split(r"(?<=\n)", self.text)
        self.starts = [0, *accumulate(map(len, self.lines))]
        self.new_line = "\r\n" if self.lines[0].endswith("\r\n") else "\n"
        self._units: list[tuple[range, Callable[[Sequence[Filling]], list[Edit]]]] = []
        self._runs: list[tuple[int, int, Hashable, range]] = []

    def place(self, line: int) -> str:
        """Return the location of a line, for messages; lines are numbered from 1."""
        return f"{self.name}:{line}"

    def leave(self, line: int, why: str) -> None:
        """Record that some text in a line is not translated, and why."""
        self.left.append(f"{self.place(line)}: {why}")

    def error(self, line: int, problem: str) -> InputError:
        """Return an error about a line."""
        return InputError(f"{self.place(line)}: {problem}")

    def read_again(self, data: bytes) -> Self:
        """Return a new document, read from ``data``, the bytes that ``write`` returned."""
        return type(self)(replace(self._source, data=data))

    def add_unit(
        self, segments: Sequence[Segment], write: Callable[[Sequence[Filling]], list[Edit]]
    ) -> range:
        """Add segments, and return their indices.

        Once all are translated, ``write`` returns the edits that insert them.
        """
        first = len(self.segments)
        self.segments += segments
        self._units.append((range(first, len(self.segments)), write))
        return self._units[-1][0]

    def add_span(self, segment: Segment, start: int, end: int) -> None:
        """Add a span of the document, and its text as a segment if that has to be translated."""
        places = range(0)
        if segment.has_letters or not self.needs_words:
            places = self.add_unit(
                [segment], lambda to: [Edit(start, end, self.written(segment, to[0].text))]
            )
        self.add_run(start, end, self.shape(segment), places)

    def add_run(self, start: int, end: int, shape: Hashable, segments: range) -> None:
        """Add a span whose ``shape`` must not change; ``segments`` are indices of its segments."""
        self._runs.append((start, end, shape, segments))

    def shape(self, segment: Segment) -> Hashable:
        """Return what a translation must have in common with its segment: the tags."""
        return tuple(sorted(segment.tag_texts))

    def structure(self, fillings: Sequence[Filling | None] = ()) -> list[Part]:
        """Return the document's parts; with ``fillings``, the parts once these are inserted.

        When the document with translations is read again, its parts must have these shapes.
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
        """Return the filled document's bytes; where a filling is None, the existing text stays."""
        return (self._mark + splice(self.text, self._edits(fillings))).encode(self._codec)

    def _edits(self, fillings: Sequence[Filling | None]) -> list[Edit]:
        """Return the replacements for segments with translations, in order."""
        edits: list[Edit] = []
        for places, write in self._units if fillings else ():
            filled = [filling for place in places if (filling := fillings[place]) is not None]
            if len(filled) == len(places):
                edits += write(filled)
        edits.sort()
        # Put final edits first: text at the start of a document precedes text of its first part.
        edits = sorted(self.final_edits(edits) + edits, key=lambda edit: edit[:2]) if edits else []
        # In formats without references, only comments may contain such characters.
        lacking = "xmlcharrefreplace" if self.has_references else "replace"
        codec = self._codec
        return [one._replace(text=one.text.encode(codec, lacking).decode(codec)) for one in edits]

    def written(self, segment: Segment, text: str) -> str:
        """Return ``text``, a segment's translation, in the document's syntax."""
        return text

    def final_edits(self, edits: Sequence[Edit]) -> list[Edit]:
        """Return the additional edits that are needed if at least one segment is translated."""
        return []


class LinesDocument(Document):
    """Plain text with one sentence per line, for translation memories and reports."""

    needs_words = False  # because a memory may also have numbers

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        for number, (first, behind) in enumerate(pairwise(self.starts), start=1):
            start, end = trim(self.text, first, behind)
            if start < end:
                self.add_span(Segment(self.text[start:end], self.place(number)), start, end)


def element_name(tag: str) -> str:
    """Return the element name in a tag: 'b' for <b>, '/b' for </b>, and '' for a single tag."""
    element = _ELEMENT.match(tag)
    if element is None:
        return ""
    slash, name, end, template = element.groups()
    return f"{slash}{name.lower()}" if name else f"{'/' if end else ''}%{template}"


def pair_tags(found: Iterable[tuple[int, int, str]]) -> tuple[Tag, ...]:
    """Return tags made from (start, end, name); unpaired or overlapping ones become single tags."""
    tags: list[Tag] = []
    opened: list[tuple[int, str]] = []  # tags' indices, and the names of their end tags
    waiting: Counter[str] = Counter()
    for number, (start, end, name) in enumerate(found):
        tags.append(Tag(start, end))
        if name and name[0] != "/":
            opened.append((number, f"/{name}"))
            waiting[f"/{name}"] += 1
        elif waiting[name]:
            closed = ""
            while closed != name:
                place, closed = opened.pop()
                waiting[closed] -= 1
            tags[place] = tags[place]._replace(kind="open", key=str(place))
            tags[number] = Tag(start, end, "close", str(place))
    return tuple(tags)


def make_segment(
    pieces: Iterable[tuple[str, str | None]], place: str, read: Callable[[str], str]
) -> Segment:
    """Return a segment made of tags (with names) and text (name None), unescaped by ``read``."""
    text, raw = "", ""  # html.parser makes a separate piece of '&amp;'
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
    """Return a segment in which the sign of a keyboard accelerator ('_File', 'E~xit') is a tag.

    A sign inside a word moves to the word's start. ``escape`` writes it in the file's syntax. If
    there are several, none becomes a tag, as they mean something else: '_emphasis_', '~/a or ~/b'.
    """
    # Cover placeholders with their last character, as in '<a target="_blank">_File</a>'.
    covers = (Edit(at, end, one[-1] * len(one)) for one, at, end in find_verbatim(text))
    covered = splice(text, covers)
    first_space = next((match.start() for match in _SPACES.finditer(covered)), len(text))

    def is_accelerator(match: re.Match[str]) -> bool:
        """Return whether a match is an accelerator, as in 'Cl_ose it', unlike 'Max_size'."""
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


def trim(text: str, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """Return the start and end of a span of a text without the white space at its ends."""
    part = text[start:end]
    first = start + len(part) - len(part.lstrip())
    return first, first + len(part.strip())


def join_lines(text: str) -> str:
    """Replace each line break and the white space around it with one space."""
    # \s*\n\s* would take time that grows with the square of the spaces.
    return _SPACES.sub(lambda spaces: " " if "\n" in spaces[0] else spaces[0], text)


def without_controls(text: str) -> str:
    """Replace control characters, which XML files cannot contain, with spaces or U+FFFD."""
    return _CONTROLS.sub(lambda sign: " " if sign[0].isspace() else "\ufffd", text)


def read_references(raw: str) -> str:
    """Return HTML text with character references, such as '&amp;', replaced."""
    try:
        return references.unescape(raw)
    except ValueError:  # a reference with thousands of digits
        return raw


def splice(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with ``edits`` applied; they must be in order and must not overlap."""
    pieces, place = [], 0
    for start, end, new in edits:
        assert start >= place
        pieces += [text[place:start], new]
        place = end
    return "".join((*pieces, text[place:]))
