"""Subtitles in SRT and WebVTT: the text of cues is translated; times, names and settings stay."""

import html
import re
import textwrap
from bisect import bisect_left
from collections.abc import Sequence

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.document import (
    Document,
    Segment,
    Source,
    element_name,
    join_lines,
    make_segment,
    read_references,
    trim,
)

_TIMES = re.compile(r"\s*[\d:.,]+\s*-->\s*[\d:.,]+")
_SPEAKER = re.compile(r"\s*(?:[-–—]\s*(?=\S)|(?=<v[\s.]))")
_TIME = re.compile(r"<\d")  # the time at which the rest of a WebVTT cue appears
_TAG = re.compile(r"(<[^<>]*>|\{\\[^{}]*\})")
_LONGEST = 42  # characters per line, the limit of broadcasters and Netflix


class SrtDocument(Document):
    """An SRT file, whose cues may contain empty lines."""

    ends_at_empty_lines = False

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        lines: list[int] = []
        is_cue = False
        for number, line in enumerate(self.lines):
            if _TIMES.match(line):  # a number, but no empty line, may come before it
                has_number = lines and self.lines[lines[-1]].strip().isdigit()
                self._add_cue(lines[:-1] if has_number else lines)
                is_cue, lines = True, []
            elif not line.strip():  # a line of spaces splits a cue's text, but does not end the cue
                self._add_cue(lines)
                is_empty = not line.strip("\r\n")
                is_cue, lines = is_cue and not (is_empty and self.ends_at_empty_lines), []
            elif is_cue:
                lines.append(number)
        self._add_cue(lines)
        is_vtt = self.text.startswith("WEBVTT")
        if self.text.strip() and "-->" not in self.text and not is_vtt:
            raise InputError(f"{self.name}: no subtitles: it has no line of times with '-->'")

    def _add_cue(self, lines: Sequence[int]) -> None:
        """Add a cue's text, with one segment per speaker; ``lines`` are indices of its lines."""
        if not lines:
            return
        speakers = [_SPEAKER.match(self.text, self.starts[line]) for line in lines]
        firsts = [place for place, speaker in enumerate(speakers) if speaker or not place]
        for place, following in zip(firsts, [*firsts[1:], len(lines)], strict=True):
            first, speaker = lines[place], speakers[place]
            behind = self.starts[lines[following - 1] + 1]
            start, end = trim(self.text, speaker.end() if speaker else self.starts[first], behind)
            parts = _TAG.split(join_lines(self.text[start:end]))
            pieces = ((part, element_name(part) if n % 2 else None) for n, part in enumerate(parts))
            read = read_references if self.has_references else str
            self.add_span(make_segment(pieces, self.place(first + 1), read), start, end)

    def written(self, segment: Segment, text: str) -> str:
        """Return a cue's text; break long text into lines of similar length."""
        parts = segment.change(text.replace("-->", "→"), join_lines)
        # Words may change places, but times may not.
        times = filter(_TIME.match, segment.tag_texts)
        parts[1::2] = [next(times) if _TIME.match(tag) else tag for tag in parts[1::2]]
        if self.has_references:
            parts[::2] = [html.escape(part, quote=False) for part in parts[::2]]
        return self.new_line.join(_break_lines(parts))


class VttDocument(SrtDocument):
    """A WebVTT file, whose cues end at empty lines."""

    has_references = True
    ends_at_empty_lines = True


def _break_lines(parts: Sequence[str]) -> list[str]:
    """Join alternating text and tags; return as few lines as possible, of similar length."""
    shown = sum(map(len, parts[::2]))
    text = "".join(
        part.replace(" ", "\0") if number % 2 else part for number, part in enumerate(parts)
    )
    count = -(-shown // _LONGEST)
    if count < 2:
        return ["".join(parts)]
    wrapper = textwrap.TextWrapper(break_long_words=False, break_on_hyphens=False)

    def wrap(width: int) -> list[str]:
        wrapper.width = width
        return wrapper.wrap(text)

    # The smallest possible width may be large because of a long tag.
    widths = range(len(text) // count, len(text) + 1)
    place = bisect_left(widths, True, key=lambda width: len(wrap(width)) <= count)
    return [line.replace("\0", " ") for line in wrap(widths[place])]
