"""Plain text, a sentence a line: as a document where a memory is asked or a page written."""

import re
from collections.abc import Sequence

from transformer_cli.documents.document import Document, Filling, Segment, Source


class LinesDocument(Document):
    """A text; line N in is line N out, and what is not filled is written as its source."""

    def __init__(self, source: Source) -> None:
        lines = re.split(r"(?<=\n)", source.decode(self.encoding))
        self.left = []
        self._parts = [re.fullmatch(r"(\ufeff?\s*)(.*?)(\s*)", line, re.DOTALL) for line in lines]
        self.segments = [
            Segment(part[2], f"{source.name}:{number}")
            for number, part in enumerate(self._parts, start=1)
            if part is not None and part[2]
        ]

    def write(self, fillings: Sequence[Filling | None]) -> bytes:
        """Return the text with each line's translation."""
        waiting = iter(fillings)
        written = []
        for part in self._parts:
            assert part is not None
            filling = next(waiting) if part[2] else None
            written.append(part[1] + (filling.text if filling else part[2]) + part[3])
        return "".join(written).encode(self.encoding)
