"""Plain text, a sentence a line: as a document where a memory is asked or a page written."""

import re
from collections.abc import Sequence

from transformer_cli.documents.document import Document, Filling, Segment, Source


class LinesDocument(Document):
    """A text; line N in is line N out, and what is not filled is written as its source."""

    def __init__(self, source: Source) -> None:
        self.segments, self.left = [], []
        self._parts: list[tuple[str, str, str]] = []  # of each line: the text is in the middle
        lines = re.split(r"(?<=\n)", source.decode(self.encoding))
        for number, line in enumerate(lines, start=1):
            start = len(line) - len(line.removeprefix("\ufeff").lstrip())
            text = line[start:].rstrip()
            self._parts.append((line[:start], text, line[start + len(text) :]))
            if text:
                self.segments.append(Segment(text, f"{source.name}:{number}"))

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the text with each line's translation."""
        waiting = iter(fillings)
        written = []
        for before, text, behind in self._parts:
            filling = next(waiting) if text else None
            written.append(before + (filling.text if filling else text) + behind)
        return "".join(written).encode(self.encoding)
