"""How placeholders differ in a line and its translation."""

from hypothesis import given, strategies as st

from transformer_cli.extensions.constraints.placeholders import compare_placeholders
from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS


@given(st.text(st.sampled_from("<>/ab%s1$(){}:.[]!,@w&;='\" \\-") | st.characters()))
def test_a_line_has_its_own_placeholders(line: str) -> None:
    assert compare_placeholders(line, line, GROUPS) == ""


def test_a_difference_is_told_with_numbers() -> None:
    assert (
        compare_placeholders("%s {a} {a}", "{a} {b}", GROUPS)
        == "without '%s', without '{a}', with '{b}'"
    )
    assert compare_placeholders("%s {a}", "{a} %s", GROUPS) == ""
    assert compare_placeholders("%s", "", ["braces"]) == ""
    assert compare_placeholders("%s", "", []) == ""
