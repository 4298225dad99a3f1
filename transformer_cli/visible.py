"""Text that others wrote, as a terminal, a table or a page may show it."""

import re

# But tabs and line ends. Surrogates are bytes of a file's name that are not UTF-8.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
# Unicode's line ends, and what changes the order of all text up to the end of the line.
_OF_LINES = "\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_HIDDEN = re.compile(f"[{_CONTROLS}{_OF_LINES}]")
_HIDDEN_IN_SENTENCES = re.compile(f"[{_CONTROLS}]")


def make_visible(text: str, is_sentence: bool = False) -> str:
    r"""Return text with its control characters as escapes, ``\x1b`` say.

    Args:
        text: may have several lines; tabs and line ends stay.
        is_sentence: whether it is a paragraph of its own, in which bidi controls may stay too.
    """
    hidden = _HIDDEN_IN_SENTENCES if is_sentence else _HIDDEN
    return hidden.sub(lambda found: ascii(found[0])[1:-1], text)


def shorten_middle(text: str, most: int) -> str:
    """Return at most ``most`` characters of ``text``, without its middle if some are missing.

    A message names at its end what to do.
    """
    head = most * 3 // 4
    return text if len(text) <= most else f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"
