"""A source line with the tag of its source, as in splits of the kind ``corpus``."""

from typing import Self


class TaggedLine(str):
    """A line of text. Only the codec of tags uses its tag, and puts its id before the line."""

    tag: str | None

    def __new__(cls, line: str, tag: str | None = None) -> Self:
        """Return the line with a tag; None if its source has no tag."""
        made = super().__new__(cls, line)
        made.tag = tag
        return made
