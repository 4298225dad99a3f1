"""Compare the placeholders of ``tokenizer.protect`` in a line and its translation."""

from collections import Counter
from collections.abc import Collection

from transformer_cli.extensions.verbatim.verbatim_parts import Group, find_verbatim


def compare_placeholders(src: str, tgt: str, protect: Collection[Group]) -> str:
    """Return how the placeholders of two lines differ, e.g. "without '%s', with '% s'".

    Return '' if they are the same. Repeated placeholders must be repeated equally often.
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
