"""The meaning of YAML text, and the place of each value."""

import pytest

from transformer_cli.base.errors import ConfigError
from transformer_cli.config.setting_tree import Node, find_place, parse, parse_scalar, values
from transformer_cli.config.yaml import set_node


def _refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "x.yaml")
    return str(refusal.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("0123", 123),
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("2.5e-3", 2.5e-3),
        ("1.0e-09", 1e-9),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5E+2", -150.0),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_plain_scalars_that_are_not_text(text: str, value: object) -> None:
    found = parse_scalar(text)
    assert found == value
    assert type(found) is type(value)


_TEXT = "no yes on off y tRUE 12:30 1_000 0x10 0o17 2024-01-31 1e e5 . + 1.2.3 .inf .nan << ="
_ARABIC_DIGITS = "\u0661\u0662"


@pytest.mark.parametrize("text", [*_TEXT.split(), _ARABIC_DIGITS])
def test_plain_scalars_that_are_text(text: str) -> None:
    assert parse_scalar(text) == text


def test_thousands_of_digits_are_an_infinity_and_not_a_crash() -> None:
    assert parse_scalar("9" * 5000) == float("inf")


def test_quotes_make_text() -> None:
    assert values(parse("[1, '1', \"true\", 'null', '']", "x.yaml")) == [1, "1", "true", "null", ""]


def test_whole_numbers_are_ints_however_they_are_written() -> None:
    found = values(parse("[4000.0, 1e4, 0.5]", "x.yaml"))
    assert found == [4000, 10000, 0.5]
    assert isinstance(found, list)
    assert [type(value) for value in found] == [int, int, float]


def test_a_value_stands_at_the_line_of_its_key() -> None:
    root = parse("# comment\na:\n  b: 1\n  c:\n    - 2\n    - {d: 3}\n'e': 4\n", "x.yaml")
    assert [
        find_place(root, keys).line
        for keys in [("a",), ("a", "b"), ("a", "c"), ("a", "c", 1), ("a", "c", 1, "d"), ("e",)]
    ] == [2, 3, 4, 6, 6, 7]


def test_the_place_of_what_is_not_there_is_the_section_around_it() -> None:
    root = parse("a:\n  b: 1\n", "x.yaml")
    assert find_place(root, ("a", "z")).line == 1
    assert find_place(root, ("a", "b", "z")).line == 2
    assert str(find_place(root, ("z",))) == "x.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "x.yaml:4: a.b: written twice, first on line 2; keep one"),
        ("a: 1\n'a': 2\n", "x.yaml:2: a: written twice, first on line 1; keep one"),
        ("a: 1\n12: 2\n", "x.yaml:2: a key must be text, found 12; write '12'"),
        ("a:\n  null: 2\n", "x.yaml:2: a: a key must be text, found nothing (null); write 'null'"),
        ("true: 2\n", "x.yaml:1: a key must be text, found true; write 'true'"),
        ("? [a]\n: 2\n", "x.yaml:1: a key must be text, found a list of 1"),
        ("a: b: c\n", "x.yaml:1: not YAML: mapping values are not allowed here (column 5)"),
        ("a: 1\nb: [1,\n", "x.yaml:3: not YAML: "),
        ("a: 1\n\tb: 2\n", "x.yaml:2: not YAML: "),
        ("a: 1\nb: \0\n", "x.yaml:2: not YAML: the character U+0000 is not allowed"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', "x.yaml:2: not YAML: an escape that is not a character"),
        (
            "a: 1\n---\nb: 2\n",
            "x.yaml:2: not YAML: but found another document (column 1); a second YAML document "
            "starts there; use one file for each",
        ),
        ('a: "x\\ty"\n', "x.yaml:1: a: expected a line of text, found 'x\\ty'"),
        ('a: "\\uD800"\n', "x.yaml:1: a: expected a line of text, found '\\ud800'"),
        ("a: |\n  x\n", "x.yaml:1: a: expected a line of text, found 'x\\n'"),
    ],
)
def test_refusals_name_line_and_key(text: str, message: str) -> None:
    assert _refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("!!python/object/apply:os.system [touch /tmp/never]", "!!python/object/apply:os.system"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!mine {b: 1}", "!mine"),
        ("!!str 3", "!!str"),
    ],
)
def test_tags_are_refused(value: str, tag: str) -> None:
    message = _refusal(f"x: 1\na: {value}\n")
    assert message == f"x.yaml:2: the tag {tag} is not allowed; leave it out"


def test_aliases_are_refused_so_that_they_cannot_loop_or_swell() -> None:
    assert _refusal("a: &a\n  b: *a\n") == (
        "x.yaml:2: the alias *a is not allowed; write the value out"
    )
    bomb = "a0: &a0 [1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40)
    )
    assert _refusal(bomb) == "x.yaml:2: the alias *a0 is not allowed; write the value out"


@pytest.mark.parametrize("text", ["a:\n  b: 1\n    c: 2\n", "a:\n    b: 1\n  c: 2\n"])
def test_a_wrong_indentation_is_told_of(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^x.yaml:[23]: not YAML: .*start in the same column$"):
        parse(text, "x.yaml")


@pytest.mark.parametrize("text", ["a: 'x' y\n", "b: [1, 2]]\n"])
def test_a_quote_or_bracket_is_not_taken_for_indentation(text: str) -> None:
    assert "same column" not in _refusal(text)


@pytest.mark.long
def test_deep_nesting_is_refused() -> None:
    assert _refusal(f"a: {'[' * 900}{']' * 900}") == "x.yaml:1: nested too deeply"
    assert _refusal("".join(f"{' ' * n}- \n" for n in range(5000))).endswith("nested too deeply")
    for key in ("? ", "{", "{? "):
        assert _refusal(f"{key * 5000}a").endswith("nested too deeply")


def test_tabs_are_told_what_to_be() -> None:
    with pytest.raises(ConfigError, match=r"^x.yaml:2: not YAML: .*; indent with spaces"):
        parse("a:\n\tb: 1\n", "x.yaml")


@pytest.mark.parametrize("text", ["a: 1\nb:2\nc: 3\n", "model:\n  a: 1\n  b:2\nseed: 1\n"])
def test_a_space_that_is_missing_is_advised(text: str) -> None:
    assert "; put a space after the colon of a key" in _refusal(text)


@pytest.mark.parametrize(
    "text",
    ["a: http://x/y", "a:\n  http://x/y", "a: b:c", "a:\n  'b:c'", "test: {wmt:14: {src: a}}"],
)
def test_a_colon_in_text_is_no_missing_space(text: str) -> None:
    parse(text, "x.yaml")


def test_setting_a_value_leaves_the_tree_as_it_was() -> None:
    text = "a: {b: [1]}\nc: 2\n"
    first = parse(text, "x.yaml")
    changed = set_node(first, ("a", "b"), Node(3, first.place))
    changed = set_node(changed, ("d", "e"), Node(4, first.place))
    assert values(changed) == {"a": {"b": 3}, "c": 2, "d": {"e": 4}}
    assert values(parse(text, "x.yaml")) == values(first) == {"a": {"b": [1]}, "c": 2}


def test_a_long_key_is_told_in_part() -> None:
    assert _refusal(f"{'a' * 900}: 1\n{'a' * 900}: 2\n").startswith(f"x.yaml:2: {'a' * 200}…: ")
