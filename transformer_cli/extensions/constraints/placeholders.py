"""How the placeholders that ``tokenizer.protect`` lists differ in a line and its translation."""

from collections import Counter
from collections.abc import Collection

from transformer_cli.extensions.verbatim.verbatim_parts import Group, find_verbatim


def compare_placeholders(src: str, tgt: str, protect: Collection[Group]) -> str:
    """Return how the placeholders of two lines differ, as in "without '%s', with '% s'".

    Nothing if they are the same. One that is twice in a line has to be twice in the other.
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
