"""Placeholders: parts of a line that are the same in its translation, as '%s', '{name}' or '<b>'.

Each pattern takes time linear in the line's length, whatever the line: repetitions are possessive,
or end at a character that only starts a placeholder.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from transformer_cli.config.tokenizer_schema import Protected

# C's printf and its relatives: '%s', '%1$s', '%-5.2f', '%(name)s', and Qt's '%1'. No space as flag
# and no digit before, as in '100 % der' and '100%ige'.
_PRINTF = (
    r"%%|(?<!\d)%(?:"
    r"(?:\(\w++\)|\d++\$)?[-+#0']*+(?:\*|\d++)?+(?:\.(?:\*|\d++)?+)?(?:hh|ll|[hlqjztL])?"
    r"[diouxXeEfFgGaAcCsSpnrm@]"
    r"|L?[1-9](?!\d))"
)
# '{}', '{0}', '{name!r:>5}', '{user.name}', '${VAR}', '%{name}', '{{ name }}', '{0,number}'. Not
# ICU's '{n, plural, one {# file} other {# files}}', whose text is to be translated.
_BRACES = (
    r"\{\{[^{}]*+\}\}"
    r"|[$#%]?\{(?:\w*+(?:[.\[][\w.\[\]]*+)?(?:![rsa])?(?::[^{}\s]*+)?|\d++\s*+,[^{}]*+)\}"
)
_NAME = r"[A-Za-z0-9][\w:.-]*+"
_ATTRIBUTE = r"""[\w:.-]++(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'|[^\s"'<>=]++))?"""
_TAGS = (
    rf"</{_NAME}\s*+>|<(?P<opened>{_NAME})(?:\s++{_ATTRIBUTE})*+\s*+/?>"
    r"|&(?:amp|lt|gt|quot|apos|nbsp);"
)
_URLS = (
    r"(?<!\w)(?:(?:https?|ftp|file)://|www\.)"
    r"[^\s<>\"“”„«»‹›`]*[^\s<>\"“”„«»‹›`.,;:!?')\]}…]"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
)
_PATTERNS: dict[Protected, str] = {
    "urls": _URLS,
    "tags": _TAGS,
    "printf": _PRINTF,
    "braces": _BRACES,
}
_CLOSING = re.compile(rf"</({_NAME})")
# Elements that need no closing tag in their line to be told from '<file>' in 'Usage: cat <file>'.
_INLINE_ELEMENTS = frozenset(
    (
        "a",
        "b",
        "big",
        "br",
        "center",
        "code",
        "em",
        "font",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "kbd",
        "li",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "tt",
        "u",
        "ul",
    )
)


class Placeholder(NamedTuple):
    """A placeholder, and where it begins in its line."""

    start: int
    text: str

    @property
    def end(self) -> int:
        """Where the line goes on after it."""
        return self.start + len(self.text)


def find_placeholders(line: str, groups: Collection[Protected]) -> list[Placeholder]:
    """Return the placeholders of a line that are of these groups, from left to right."""
    return list(_find(line, _compile(frozenset(groups)))) if groups else []


def compare_placeholders(src: str, tgt: str, groups: Collection[Protected]) -> str:
    """Return how the placeholders of two lines differ, as in "without '%s', with '% s'".

    Nothing if they are the same. One that is twice in a line has to be twice in the other.
    """
    if not groups:
        return ""
    of_src, of_tgt = (
        Counter(each.text for each in find_placeholders(line, groups)) for line in (src, tgt)
    )
    return ", ".join(
        f"{how} '{text}'"
        for how, texts in (("without", of_src - of_tgt), ("with", of_tgt - of_src))
        for text in texts.elements()
    )


@cache
def _compile(groups: frozenset[Protected]) -> re.Pattern[str]:
    return re.compile("|".join(pattern for name, pattern in _PATTERNS.items() if name in groups))


def _find(line: str, pattern: re.Pattern[str]) -> Iterator[Placeholder]:
    closed: set[str] | None = None
    place = 0
    while found := pattern.search(line, place):
        opened = found["opened"] if "opened" in pattern.groupindex else None
        if opened is not None and "=" not in found[0] and not found[0].endswith("/>"):
            if closed is None:
                closed = {name.lower() for name in _CLOSING.findall(line)}
            if opened.lower() not in _INLINE_ELEMENTS and opened.lower() not in closed:
                # '<file>' is text; look for placeholders inside it.
                place = found.start() + 1
                continue
        yield Placeholder(found.start(), found[0])
        place = found.end()


class Part(NamedTuple):
    """A part of a line, without the white space around it.

    Attributes:
        text: of the part.
        slot: number of the slot that stands for it, from 0; None: it is plain text.
        is_glued: whether there is no white space between it and the part before.
    """

    text: str
    slot: int | None
    is_glued: bool


def split_parts(
    line: str, placeholders: Sequence[Placeholder], slots: Mapping[str, int]
) -> Iterator[Part]:
    """Yield the parts of a line: placeholders that have a slot, and the text between them."""
    is_glued = False
    for text, slot in _cut(line, placeholders, slots):
        if slot is not None:
            yield Part(text, slot, is_glued)
            is_glued = True
        elif content := text.strip():
            yield Part(content, None, is_glued and not text[0].isspace())
            is_glued = not text[-1].isspace()
        elif text:
            is_glued = False


def _cut(
    line: str, placeholders: Sequence[Placeholder], slots: Mapping[str, int]
) -> Iterator[tuple[str, int | None]]:
    """Yield text and placeholders with slots by turns; text may be empty."""
    place = 0
    for each in placeholders:
        if each.text in slots:
            yield line[place : each.start], None
            yield each.text, slots[each.text]
            place = each.end
    yield line[place:], None
