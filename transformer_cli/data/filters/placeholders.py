"""Parts of a line that are no words: printf, braces, tags, URLs."""

import re

_PLACEHOLDER = re.compile(
    r"https?://[^\s<>\"']+|www\.[^\s<>\"']+"
    r"|</?[A-Za-z][\w:-]*(?:\s[^<>]*)?/?>"
    r"|(?<![\d%])%(?:\(\w+\)|\d+\$)?[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|j|z|t|L)?"
    r"[diouxXeEfFgGcsp]"
    r"|\$?\{[^\s{}]*\}"
)


def find_placeholders(line: str) -> list[str]:
    """Return the placeholders, tags and URLs of a line, in their order."""
    if "%" in line or "<" in line or "{" in line or "://" in line or "www." in line:
        return _PLACEHOLDER.findall(line)
    return []
