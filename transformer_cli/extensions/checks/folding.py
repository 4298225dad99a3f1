"""Normalize lines before comparing them, so that invisible differences do not count."""

import unicodedata


def fold_side(side: str) -> str:
    """Return a line without format characters and repeated spaces, for comparison."""
    if side.isprintable():  # then it has no format characters, and no white space but spaces
        return " ".join(side.split()) if "  " in side else side.strip()
    return " ".join(side.translate(_FORMAT_CHARACTERS).split())


class Dropping(dict[int, str | None]):
    """A table for ``str.translate`` that drops characters of some Unicode categories.

    Categories are given by name or first letter: 'Z' stands for 'Zs', 'Zl' and 'Zp'.
    """

    def __init__(self, *categories: str) -> None:
        self._categories = categories

    def __missing__(self, code: int) -> str | None:
        is_dropped = unicodedata.category(chr(code)).startswith(self._categories)
        self[code] = None if is_dropped else chr(code)
        return self[code]


_FORMAT_CHARACTERS = Dropping("Cf")  # zero-width spaces, soft hyphens, ...
