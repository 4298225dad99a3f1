"""A source line with the tag of its data source, as in splits of the kind ``corpus``."""

from typing import Self


class TaggedLine(str):
    """A line of text with a tag, which ``ReservedTokenizers`` encodes as the line's first token."""

    tag: str | None

    def __new__(cls, line: str, tag: str | None = None) -> Self:
        """Return the line with a tag; the tag is None if the line's data source has none."""
        made = super().__new__(cls, line)
        made.tag = tag
        return made
