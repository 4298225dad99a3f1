"""Plain text, a sentence a line: as a document where a memory is asked or a page written."""

import re

from transformer_cli.documents.document import Segment, Source, TextDocument


class LinesDocument(TextDocument):
    """A text; line N in is line N out, and what is not filled is written as its source."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        start = 0
        for number, line in enumerate(re.split(r"(?<=\n)", self.text), start=1):
            text = line.removeprefix("\ufeff").strip()
            if text:
                at = line.index(text) + start
                self.add_span(Segment(text, f"{self.name}:{number}"), at, at + len(text))
            start += len(line)
