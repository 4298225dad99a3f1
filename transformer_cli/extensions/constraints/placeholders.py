"""Placeholders of a line, which a run protects: found, and compared with its translation's."""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING

from transformer_cli.base.errors import TokenizerError, shorten_middle
from transformer_cli.extensions.constraints.protection import (
    PlaceholderPattern,
    Protection,
    compile_own,
)
from transformer_cli.text.verbatim import Search, VerbatimPart, find_verbatim

if TYPE_CHECKING:
    import regex

MAX_SECONDS = 5
"""Processor time that the user's patterns may take in one search of a line."""


def find_placeholders(line: str, protect: Collection[Protection]) -> list[VerbatimPart]:
    """Return the placeholders of a line that are protected, from left to right.

    Raises:
        TokenizerError: a user's pattern takes too long.
    """
    groups = [each for each in protect if not isinstance(each, PlaceholderPattern)]
    return find_verbatim(line, groups, own_searches(protect))


def own_searches(protect: Collection[Protection]) -> Sequence[Search]:
    """Return the searches of one line by the user's own patterns, which raise TokenizerError."""
    end = thread_time() + MAX_SECONDS  # not the process's: other threads translate meanwhile
    own = (each.pattern for each in protect if isinstance(each, PlaceholderPattern))
    return [partial(_search_own, pattern, end) for pattern in own]


def _search_own(pattern: str, end: float, line: str, place: int) -> "regex.Match[str] | None":
    try:
        return compile_own(pattern).search(line, place, timeout=max(0.01, end - thread_time()))
    except (TimeoutError, MemoryError):  # it may take up to 1 GiB
        raise TokenizerError(
            f"tokenizer.protect: the pattern '{pattern}' takes more than {MAX_SECONDS} s or 1 GiB "
            f"for the line '{shorten_middle(line, 80)}'; simplify it"
        ) from None


def compare_placeholders(src: str, tgt: str, protect: Collection[Protection]) -> str:
    """Return how the placeholders of two lines differ, as in "without '%s', with '% s'".

    Nothing if they are the same. One that is twice in a line has to be twice in the other.
    """
    if not protect:
        return ""
    of_src, of_tgt = (
        Counter(each.text for each in find_placeholders(line, protect)) for line in (src, tgt)
    )
    return ", ".join(
        f"{how} '{text}'"
        for how, texts in (("without", of_src - of_tgt), ("with", of_tgt - of_src))
        for text in texts.elements()
    )
