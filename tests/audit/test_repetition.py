from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from transformer_cli.audit.repetition import find_in, find_repeated
from transformer_cli.data.selection import Digests

LINES = st.lists(st.one_of(st.none(), st.sampled_from("abcdefg"), st.text(max_size=3)), max_size=40)


def digests(lines: Iterable[str | None]) -> Digests:
    """None stands for a line that is like no other."""
    result = Digests()
    for line in lines:
        if line is None:
            result.skip()
        else:
            result.add(line)
    return result


@given(LINES)
def test_repeated_lines_are_those_that_a_list_has_before(lines: list[str | None]) -> None:
    expected = [
        (index, lines.index(line))
        for index, line in enumerate(lines)
        if line is not None and line in lines[:index]
    ]
    assert find_repeated(digests(lines)) == expected


@given(LINES, LINES)
def test_lines_are_found_in_another_text_as_in_a_list(
    few: list[str | None], many: list[str | None]
) -> None:
    expected = [
        (index, many.index(line))
        for index, line in enumerate(few)
        if line is not None and line in many
    ]
    assert find_in(digests(few), digests(many)) == expected
