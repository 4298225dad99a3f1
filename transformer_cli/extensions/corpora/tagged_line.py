"""A source line with the tag of its source, as splits of the kind ``corpus`` have them."""

from typing import Self


class TaggedLine(str):
    """A line that is text to everybody but the codec of tags, which puts the tag's id before it."""

    tag: str | None

    def __new__(cls, line: str, tag: str | None = None) -> Self:
        """Return the line with a tag; None: its source has none."""
        made = super().__new__(cls, line)
        made.tag = tag
        return made
