"""Which parts of a line are placeholders."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from transformer_cli.base.errors import TokenizerError
from transformer_cli.extensions.constraints import placeholders
from transformer_cli.extensions.constraints.placeholders import (
    PlaceholderPattern,
    ProtectedParts,
    compare_placeholders,
    find_placeholders,
)
from transformer_cli.text.lines import GROUPS, Group


def found(line: str, groups: tuple[Group, ...] = GROUPS) -> list[str]:
    return [match[0] for match in find_placeholders(line, groups)]


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
def test_placeholders_of_a_group(group: Group, line: str, expected: str) -> None:
    line = line.replace("_", " ")
    assert found(line, (group,)) == [each.replace("_", " ") for each in expected.split()]
    others = tuple(each for each in GROUPS if each != group)
    assert not set(expected.split()) & set(found(line, others)) or group == "urls"


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("%[A-Z]+%", "%FILE% in %DIR%, %s, 100%, %a%", "%FILE% %DIR% %s %a"),
        (r"\$\[\w+\]|@@", "$[name]@@ %d", "$[name] @@ %d"),
        ("(?i:#[a-f0-9]{6})", "#00FFaa #00f", "#00FFaa"),
        ("(?=%)", "%s a %", "%s"),
        (r"(?P<opened>[@$])(\w+)\1", "@a@ $b$ @c$ <x>", "@a@ $b$"),
        ("x{e}|a{1,2}[{]", "xe x{e} a{ aa{", "x{e} a{ aa{"),
    ],
)
def test_patterns_of_ones_own_go_before_groups(pattern: str, line: str, expected: str) -> None:
    own = PlaceholderPattern(pattern=pattern)
    matches = find_placeholders(line, ("printf", own))
    # What only looks ahead protects nothing, and hides what is there.
    assert [match[0] for match in matches] == (expected.split() if pattern != "(?=%)" else [])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\N{EM DASH}+", "a \u2014\u2014 b N{EM DASH}"),
        (r"[\N{EM DASH}-]\w", "-a \u2014b {c"),
        (r"x\{2}", "xx x{2}"),
        (r"\\{2}", "a\\\\b"),
        (r"[[{]\w+[\]}]".replace("[[", r"[\["), "{a} [b] (c)"),
        ("[{3}]+", "a{3}"),
        ("a{1,2}{b}|c{2,}|d{,2}e", "aa{b} ccc dde"),
        ("x{e}{1}|y{,}z|{ 1}", "x{e} yyyz { 1}"),
        (r"\w{1,30}-\w{1,30}-\w{1,30}", "one two-three-four"),
        ("a{1,100}[,500]+,600", "aa,500,600"),
    ],
)
def test_an_own_pattern_finds_what_python_finds(pattern: str, text: str) -> None:
    protect = TypeAdapter(ProtectedParts).validate_python([{"pattern": pattern}])
    expected = [match[0] for match in re.finditer(pattern, text)]
    assert expected
    assert [match[0] for match in find_placeholders(text, protect)] == expected


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("[a ]*[a ]*[a ]*[a ]*[!?]", "a " * 3000),  # passed all checks of 1.0.0's first draft
        ("(?:a|aa|aaa)+[!?]", "a" * 1000),
        ("(?:(?:a+)+b|@)", "@" * 1000 + "a" * 1000),  # the limit is for all searches of a line
    ],
)
def test_a_slow_pattern_ends_in_an_error(
    pattern: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placeholders, "MAX_SECONDS", 0.2)
    own = PlaceholderPattern(pattern=pattern)
    with pytest.raises(TokenizerError) as caught:
        find_placeholders(line, ("printf", own))
    message = str(caught.value)
    assert message.startswith(f"tokenizer.protect: the pattern '{pattern}' takes more than 0.2 s")
    assert f"for the line '{line[:50]}" in message
    assert "\n" not in message
    assert len(message) < 300


def test_lines_without_an_own_pattern_do_not_use_regex() -> None:
    code = (
        "import sys; from transformer_cli.extensions.constraints import placeholders; "
        "find = placeholders.find_placeholders; "
        "find('%s <b>', ['printf', 'braces', 'tags', 'urls']); sys.exit('regex' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_leftmost_placeholder_counts() -> None:
    assert found('<a href="http://x.de/%s">{a:%d}</a> <file %s>') == [
        '<a href="http://x.de/%s">',
        "{a:%d}",
        "</a>",
        "%s",
    ]
    assert found("%s", ()) == []


@given(st.text(st.sampled_from("<>/ab%s1$(){}:.[]!,@w&;='\" \\-") | st.characters()))
def test_placeholders_are_parts_of_their_line_in_order(line: str) -> None:
    end = 0
    for match in find_placeholders(line, GROUPS):
        assert end <= match.start < match.end
        end = match.end
    assert compare_placeholders(line, line, GROUPS) == ""


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
    find_placeholders(unit * (100_000 // len(unit)), GROUPS)
    find_placeholders(unit + "." * 100_000 + " " * 100_000 + "a" * 100_000, GROUPS)


def test_a_difference_is_told_with_numbers() -> None:
    assert (
        compare_placeholders("%s {a} {a}", "{a} {b}", GROUPS)
        == "without '%s', without '{a}', with '{b}'"
    )
    assert compare_placeholders("%s {a}", "{a} %s", GROUPS) == ""
    assert compare_placeholders("%s", "", ["braces"]) == ""
    assert compare_placeholders("%s", "", []) == ""
