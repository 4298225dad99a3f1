"""Which parts of a line stay the same in its translation."""

import pytest
from hypothesis import given, strategies as st

from transformer_cli.extensions.verbatim.verbatim_parts import GROUPS, Group, find_verbatim
from transformer_cli.text.lines import has_words


def found(line: str, groups: tuple[Group, ...] = GROUPS) -> list[str]:
    return [match[0] for match in find_verbatim(line, groups)]


@pytest.mark.parametrize(
    ("group", "line", "expected"),
    [
        ("printf", "%s of %d: %1$s, %-5.2f, %(name)s, %.*f", "%s %d %1$s %-5.2f %(name)s %.*f"),
        ("printf", "%d%% of %lu, %hhu, %zd, %@, %#x, %05d", "%d %% %lu %hhu %zd %@ %#x %05d"),
        ("printf", "%1 of %L2, %n times", "%1 %L2 %n"),
        ("printf", "100 % der Fälle, 50%, 100%ige % d %", ""),
        (
            "braces",
            "{} {0} {name} {user.name} {x[0]} {n!r:>5}",
            "{} {0} {name} {user.name} {x[0]} {n!r:>5}",
        ),
        (
            "braces",
            "${VAR} %{count} #{x} {{x}} {{{y}}} {0,number}",
            "${VAR} %{count} #{x} {{x}} {{y}} {0,number}",
        ),
        ("braces", "{n, plural, one {# file} other {# files}} { } {a b} }{", ""),
        (
            "tags",
            "<b>x</b> <br/> <br> <0>y</0> </P > <Key>z</key>",
            "<b> </b> <br/> <br> <0> </0> </P_> <Key> </key>",
        ),
        (
            "tags",
            "<a_href='x>y'> <g_id=\"1\"/> <img_src=x>",
            "<a_href='x>y'> <g_id=\"1\"/> <img_src=x>",
        ),
        ("tags", "cat <file> <input name>; a < b > c; <y and z> <>", ""),
        ("tags", "AT&amp;T&nbsp;&lt; f&uuml;r &", "&amp; &nbsp; &lt;"),
        (
            "urls",
            "(https://x.org/a?b=%s). www.x.de, ftp://y",
            "https://x.org/a?b=%s www.x.de ftp://y",
        ),
        ("urls", "me@x.org. <a.b+c@x-y.co.uk> a@b @x.de http://", "me@x.org a.b+c@x-y.co.uk"),
    ],
)
def test_parts_of_a_group(group: Group, line: str, expected: str) -> None:
    line = line.replace("_", " ")
    assert found(line, (group,)) == [each.replace("_", " ") for each in expected.split()]
    others = tuple(each for each in GROUPS if each != group)
    assert not set(expected.split()) & set(found(line, others)) or group == "urls"


def test_the_leftmost_part_counts() -> None:
    assert found('<a href="http://x.de/%s">{a:%d}</a> <file %s>') == [
        '<a href="http://x.de/%s">',
        "{a:%d}",
        "</a>",
        "%s",
    ]
    assert found("%s", ()) == []


@given(st.text(st.sampled_from("<>/ab%s1$(){}:.[]!,@w&;='\" \\-") | st.characters()))
def test_parts_are_in_order_and_do_not_overlap(line: str) -> None:
    end = 0
    for match in find_verbatim(line, GROUPS):
        assert end <= match.start < match.end
        end = match.end


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "<a ",
        "<a=",
        '<a x="',
        "</a",
        "<q",
        "<b>",
        "{",
        "{{",
        "{a.",
        "{a:",
        "{0,",
        "${",
        "%",
        "%1$",
        "%(a",
        "%-",
        "a",
        "a@",
        "a@a.",
        "http://",
        "http://!",
        "www.",
        "&amp",
    ],
)
def test_long_lines_take_linear_time(unit: str) -> None:
    # In quadratic time, each of these would take minutes.
    find_verbatim(unit * (100_000 // len(unit)), GROUPS)
    find_verbatim(unit + "." * 100_000 + " " * 100_000 + "a" * 100_000, GROUPS)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Ein Hund", True),
        ("12345", False),
        ("https://example.org/a", False),
        ("a.b@example.org, www.example.org/x!", False),
        ("%s: {name} <br/> &nbsp;", False),
        ("%d files", True),
        ("<b>fett</b>", True),
    ],
)
def test_words_are_letters_outside_verbatim_parts(line: str, expected: bool) -> None:
    assert has_words(line) == expected
