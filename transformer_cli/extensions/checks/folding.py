"""Normalization of lines before they are compared: it ignores invisible differences."""

import unicodedata


def fold_side(side: str) -> str:
    """Return the form in which sides are compared: no format characters, single spaces."""
    if side.isprintable():  # then it has no format characters, and no white space but spaces
        return " ".join(side.split()) if "  " in side else side.strip()
    return " ".join(side.translate(_FORMAT_CHARACTERS).split())


class Dropping(dict[int, str | None]):
    """A table for ``str.translate`` that drops characters of some Unicode categories.

    Takes the categories' names or first letters: 'Z' stands for 'Zs', 'Zl' and 'Zp'.
    """

    def __init__(self, *categories: str) -> None:
        self._categories = categories

    def __missing__(self, code: int) -> str | None:
        is_dropped = unicodedata.category(chr(code)).startswith(self._categories)
        self[code] = None if is_dropped else chr(code)
        return self[code]


_FORMAT_CHARACTERS = Dropping("Cf")  # zero-width spaces, soft hyphens, ...
