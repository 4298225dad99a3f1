"""What is too short to be judged by its letters: names, titles, 'OK'."""

from transformer_cli.data.filters.placeholders import find_placeholders

LEAST_LETTERS = 20
"""'GNU General Public' has 16; what has more says something, in some language."""


def without_placeholders(line: str) -> str:
    """Return a line with a space for each placeholder, tag and URL."""
    for each in find_placeholders(line):
        line = line.replace(each, " ", 1)
    return line


def is_short(line: str) -> bool:
    """Return whether a line has few letters beside its placeholders, and so may be anything."""
    return sum(map(str.isalpha, without_placeholders(line))) < LEAST_LETTERS
