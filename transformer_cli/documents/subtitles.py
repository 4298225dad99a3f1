"""Subtitles, SRT and WebVTT: the text of cues, whose times, names and settings stay."""

import html
import re
import textwrap
from collections.abc import Sequence

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

_TIMES = re.compile(r"\s*[\d:.,]+\s*-->\s*[\d:.,]+")
_SPEAKER = re.compile(r"\s*[-–—]\s*(?=\S)")
_TAG = re.compile(r"<(/?[A-Za-z]*)[^<>]*>|\{\\[^{}]*\}")
_LONGEST = 42  # characters of a line, as broadcasters and Netflix have it


class SrtDocument(Document):
    """An SRT file."""

    has_references = False

    def __init__(self, source: Source) -> None:
        self.encoding = source.encoding_by_mark() or "utf-8"
        self._name, self._text = source.name, source.decode(self.encoding)
        self._new_line = "\r\n" if "\r\n" in self._text else "\n"
        self.segments, self.left = [], []
        self._spans: list[tuple[int, int]] = []
        lines: list[tuple[int, int]] = []
        is_cue, start = False, 0
        for number, line in enumerate(re.split(r"(?<=\n)", self._text), start=1):
            if _TIMES.match(line):  # perhaps with no empty line before it, but a number
                has_number = lines and self._text[lines[-1][1] : start].strip().isdigit()
                self._add_cue(lines[:-1] if has_number else lines)
                is_cue, lines = True, []
            elif not line.strip():
                self._add_cue(lines)
                is_cue, lines = False, []
            elif is_cue:
                lines.append((number, start))
            start += len(line)
        self._add_cue(lines)

    def _add_cue(self, lines: Sequence[tuple[int, int]]) -> None:
        """Add a cue's text, given its lines' numbers and offsets: each speaker's is a segment."""
        if not lines:
            return
        speakers = [_SPEAKER.match(self._text, start) for _, start in lines]
        firsts = [place for place, speaker in enumerate(speakers) if speaker or not place]
        for place, following in zip(firsts, [*firsts[1:], len(lines)], strict=True):
            (number, start), speaker = lines[place], speakers[place]
            start = speaker.end() if speaker else start
            last = lines[following - 1][1]
            end = self._text.find("\n", last)
            end = len(self._text) if end < 0 else end
            raw = self._text[start:end]
            start += len(raw) - len(raw.lstrip())
            end -= len(raw) - len(raw.rstrip())
            if LETTER.search(_TAG.sub("", raw)):
                self._spans.append((start, end))
                self.segments.append(self._segment(number, self._text[start:end]))

    def _segment(self, line: int, raw: str) -> Segment:
        raw = join_lines(raw)
        text, tags, place = "", list[Tag](), 0
        found = list(_TAG.finditer(raw))
        halves = pair_elements([match[1] or "" for match in found])
        for match, half in zip(found, halves, strict=True):
            text += self._read(raw[place : match.start()])
            tags.append(Tag(len(text), len(text) + len(match[0]), *half))
            text, place = text + match[0], match.end()
        return Segment(text + self._read(raw[place:]), f"{self._name}:{line}", tuple(tags))

    def _read(self, raw: str) -> str:
        return read_references(raw) if self.has_references else raw

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the file; what is longer than a line is broken into lines of like lengths."""
        edits = []
        for segment, (start, end), filling in zip(
            self.segments, self._spans, fillings, strict=True
        ):
            if filling is not None:
                parts = segment.split(filling.text.replace("-->", "→"))
                parts[::2] = [join_lines(part) for part in parts[::2]]
                if self.has_references:
                    parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
                edits.append(Edit(start, end, self._new_line.join(_break_lines(parts))))
        return splice(self._text, edits).encode(self.encoding)


class VttDocument(SrtDocument):
    """A WebVTT file."""

    has_references = True


def _break_lines(parts: Sequence[str]) -> list[str]:
    """Return text and tags, by turns, in as few lines as have room, and those about as long."""
    shown = sum(map(len, parts[::2]))
    text = "".join(
        part.replace(" ", "\0") if number % 2 else part for number, part in enumerate(parts)
    )
    count = -(-shown // _LONGEST)
    if count < 2:
        return ["".join(parts)]
    wrapper = textwrap.TextWrapper(break_long_words=False, break_on_hyphens=False)
    wrapper.width = len(text) // count
    while len(lines := wrapper.wrap(text)) > count:
        wrapper.width += 1
    return [line.replace("\0", " ") for line in lines]
