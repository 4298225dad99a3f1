"""Compare the placeholders in a line with those in its translation."""

from collections import Counter
from collections.abc import Collection

from transformer_cli.extensions.verbatim.verbatim_parts import Group, find_verbatim


def compare_placeholders(src: str, tgt: str, protect: Collection[Group]) -> str:
    """Describe how the placeholders of two lines differ, e.g. "without '%s', with '% s'".

    Return '' if they do not differ. A placeholder must occur equally often in both.
    """
    if not protect:
        return ""
    of_src, of_tgt = (
        Counter(each.text for each in find_verbatim(line, protect)) for line in (src, tgt)
    )
    return ", ".join(
        f"{how} '{text}'"
        for how, texts in (("without", of_src - of_tgt), ("with", of_tgt - of_src))
        for text in texts.elements()
    )
