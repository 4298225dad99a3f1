"""Regular expressions that find verbatim parts: one for each group, such as tags or URLs.

Each pattern runs in time linear in the line's length: repetitions are possessive, or end at a
character that can only start such a part.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache

from transformer_cli.extensions.verbatim.verbatim_parts import Group

# C's printf and similar formats: '%s', '%1$s', '%-5.2f', '%(name)s', and Qt's '%1'. The space flag
# and a digit before % are not allowed, because of '100 % der' and '100%ige'.
_PRINTF = (
    r"%%|(?<!\d)%(?:"
    r"(?:\(\w++\)|\d++\$)?[-+#0']*+(?:\*|\d++)?+(?:\.(?:\*|\d++)?+)?(?:hh|ll|[hlqjztL])?"
    r"[diouxXeEfFgGaAcCsSpnrm@]"
    r"|L?[1-9](?!\d))"
)
# '{}', '{0}', '{name!r:>5}', '{user.name}', '${VAR}', '%{name}', '{{ name }}', '{0,number}'. Not
# ICU's '{n, plural, one {# file} other {# files}}', whose text needs translation.
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
_AFTER_URL = r"\s<>\"“”„«»‹›`。，、；：！？（）「」『』【】"
_URLS = (
    r"(?<!\w)(?:(?:https?|ftp|file)://|www\.)"
    rf"[^{_AFTER_URL}]*[^{_AFTER_URL}.,;:!?')\]}}…]"
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++"
)
_PATTERNS: dict[Group, str] = {"urls": _URLS, "tags": _TAGS, "printf": _PRINTF, "braces": _BRACES}
_CLOSING = re.compile(rf"</({_NAME})")
# These elements count as tags even if the line has no closing tag. Other names, such as '<file>' in
# 'Usage: cat <file>', then count as text.
_INLINE_ELEMENT = re.compile(
    r"a|b|big|br|center|code|em|font|h[1-6]|hr|i|img|kbd|li|ol|p|pre|q|s|small|span|strong"
    r"|su[bp]|tt|ul?",
    re.IGNORECASE,
)


def find(line: str, groups: Collection[Group]) -> Iterator[re.Match[str]]:
    """Yield a match for each verbatim part of these groups in a line, from left to right."""
    pattern = _compile(tuple(groups))
    closed: set[str] | None = None
    place = 0
    while match := pattern.search(line, place):
        opened = match["opened"] if "tags" in groups else None
        if opened is not None and "=" not in match[0] and not match[0].endswith("/>"):
            if closed is None:
                closed = {name.lower() for name in _CLOSING.findall(line)}
            if not _INLINE_ELEMENT.fullmatch(opened) and opened.lower() not in closed:
                # '<file>' is text; look for parts inside it.
                place = match.start() + 1
                continue
        yield match
        place = match.end()


@cache
def _compile(groups: tuple[Group, ...]) -> re.Pattern[str]:
    return re.compile("|".join(each for group, each in _PATTERNS.items() if group in groups))
