"""What lines are compared by, without what readers do not see."""

import unicodedata


def fold_side(side: str) -> str:
    """Return what sides are compared by: no format characters, and spaces for white space."""
    if side.isprintable():  # so there is neither a format character nor white space but spaces
        return " ".join(side.split()) if "  " in side else side.strip()
    return " ".join(side.translate(_FORMAT_CHARACTERS).split())


class Dropping(dict[int, str | None]):
    """A table for ``str.translate`` that drops characters of some categories of Unicode.

    Given are their names, or the first letters of them: 'Z' stands for 'Zs', 'Zl' and 'Zp'.
    """

    def __init__(self, *categories: str) -> None:
        self._categories = categories

    def __missing__(self, code: int) -> str | None:
        is_dropped = unicodedata.category(chr(code)).startswith(self._categories)
        self[code] = None if is_dropped else chr(code)
        return self[code]


_FORMAT_CHARACTERS = Dropping("Cf")  # zero-width spaces, soft hyphens, ...
