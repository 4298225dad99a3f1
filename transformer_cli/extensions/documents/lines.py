"""Plain text as a document: for a translation memory, and for pages of all translations."""

import re

from transformer_cli.extensions.documents.document import Segment, Source, TextDocument


class LinesDocument(TextDocument):
    """Plain text, a sentence a line: line N in is line N out, and what is not filled its source."""

    needs_words = False  # as a memory may have numbers, too

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        start = 0
        for number, line in enumerate(re.split(r"(?<=\n)", self.text), start=1):
            text = line.removeprefix("\ufeff").strip()
            if text:
                at = line.index(text) + start
                self.add_span(Segment(text, f"{self.name}:{number}"), at, at + len(text))
            start += len(line)
