import pytest
from hypothesis import given, strategies as st

from transformer_cli.extensions.checks.digests import digest
from transformer_cli.extensions.checks.findings import find_in

LINES = st.lists(st.one_of(st.none(), st.sampled_from("abcdefg"), st.text(max_size=3)), max_size=40)


@pytest.mark.long
@given(LINES, LINES)
def test_lines_are_found_in_another_text_as_in_a_list(
    few: list[str | None], many: list[str | None]
) -> None:
    expected = {
        index: many.index(line)
        for index, line in enumerate(few)
        if line is not None and line in many
    }
    assert find_in(digest(few), digest(many)) == expected
