"""Markdown: what is text is translated, and what is markup stays."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from document_formats.fakes import Line, filled, reverse, translating

PAGE = """\
---
title: kept
---
# A title #

Some *text* with `code  b`, a [link **here**](http://x.org/a_b "t") and
an ![image](i.png) <b>bold</b> \\* end.

Setext
======

- one
  goes on
- [ ] two\\
  three

> quoted
> text

    indented code

```python
print("left")
```

| a | b c |
|---|:--|
| d \\| e | `f` g |

<div>left</div>

[ref]: http://x.org "title"
See [ref], [^1] & https://x.org/y. 1 * 2 = 2

12345
"""
EXPECTED = """\
---
title: kept
---
# A TITLE #

SOME *TEXT* WITH `code  b`, A [LINK **HERE**](http://x.org/a_b "t") AND AN ![image](i.png) <b>BOLD</b> \\* END.

SETEXT
======

- ONE GOES ON
- [ ] TWO\\
  THREE

> QUOTED TEXT

    indented code

```python
print("left")
```

| A | B C |
|---|:--|
| D \\| E | `f` G |

<div>left</div>

[ref]: http://x.org "title"
SEE [REF][ref], [^1] & https://x.org/y. 1 * 2 = 2

12345
"""  # noqa: E501


def test_text_is_translated(tmp_path: Path) -> None:
    data, result = filled(tmp_path / "x.md", PAGE)
    assert data.decode() == EXPECTED
    assert result.left == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a **b** c", "c **b** a"),
        ("***a*** b\r\nc\r\n", "c b ***a***\r\n"),
        ("~~a~~ __b__ _c_", "_c_ __b__ ~~a~~"),
        ("\ufeff# a b", "\ufeff# b a"),
        ("a\\\nb c", "a\\\nc b"),
        ("**a**  \nb c", "**a**  \nc b"),
        ("[a](b) c", "c [a](b)"),
        ("a <br> b", "<br> b a"),
        ("a <kbd>b *c*</kbd> d", "<kbd>b *c*</kbd> d a"),
        ("a <code>b  \nc</code> d", "<code>b   c</code> d a"),
        ("{{< a >}}b c{{</a>}}", "{{< a >}}c b{{</a>}}"),
        ("a b:<br>c", "<br>c b: a"),
        ("+++\na b\n+++\nc d", "+++\na b\n+++\nd c"),
        ("> [!NOTE]\n> a b", "> [!NOTE]\n> b a"),
        (":::note {.c}\na b\n c\n:::\n", ":::note {.c}\nc b a\n:::\n"),
        ("a `b\n::: c` d", "`b ::: c` d a"),
        ("- [ ] a b\n- [x]  c", "- [ ] b a\n- [x]  c"),
        ("a {%b%}c{%endb%} `d` {{ e }}f", "`d` {{ e }}f {%b%}c{%endb%} a"),
        ("# a b {#c .d}\n{: .e}", "# b a {#c .d}\n{: .e}"),
        ("| a |\n|--|\n| a \\| `b\\|c` d |", "| a |\n|--|\n| `b\\|c` d \\| a |"),
    ],
)
def test_tags_go_with_their_words(tmp_path: Path, text: str, expected: str) -> None:
    assert filled(tmp_path / "x.md", text, translating(reverse))[0].decode() == expected


def test_links_by_their_own_text_keep_their_labels(tmp_path: Path) -> None:
    definitions = "\n\n[a *b*]: x\n[c]: y\n"
    text = "d [a\n*b*] [C][] [e][a *b*]" + definitions
    data, _ = filled(tmp_path / "x.md", text, translating(reverse))
    assert data.decode() == "[e][a *b*] [C][C] [*b* a][a *b*] d" + definitions
    data, _ = filled(tmp_path / "x.md", "[a](b) [c]\n\n[c]: d\n")
    assert data.decode() == "[A](b) [C][c]\n\n[c]: d\n"


def as_it_is(text: str) -> Line:
    places = range(len(text.split()))
    return Line(text, tuple(zip(places, places, strict=True)))


@pytest.mark.parametrize(
    "text", ["as (`b`) as", "one of (`a`, `b`,`c`), or", 'a "`b`", <<c@d.e>>.', "a [b (c)](d)."]
)
def test_what_is_around_tags_stays_there(tmp_path: Path, text: str) -> None:
    assert filled(tmp_path / "x.md", text, translating(as_it_is))[0].decode() == text


@pytest.mark.parametrize("translation", ["*x*", "- x", "1. x", "# x", "[x](y)", "<b>", "x | y"])
@pytest.mark.parametrize("text", ["a b", "- a b", "> a b", "| a |\n|---|\n| a b |"])
def test_translations_make_no_markup(tmp_path: Path, text: str, translation: str) -> None:
    data, _ = filled(tmp_path / "x.md", text, translating(lambda _: Line(translation)))
    parser = MarkdownIt("commonmark").enable("table")
    before, after = (parser.parse(one) for one in (text, data.decode()))
    assert [token.type for token in before] == [token.type for token in after]
    assert {
        child.type for token in after if token.type == "inline" for child in token.children or ()
    } <= {"text", "text_special"}


@pytest.mark.parametrize("start", ["# ", "* ", "- ", "1. ", "> ", "* * ", "[a]: "])
def test_no_translation_begins_a_block(tmp_path: Path, start: str) -> None:
    how = translating(lambda _: Line(f"{start}dog"))
    data, _ = filled(tmp_path / "x.md", "Cat  \nHorse\n", how)
    (paragraph,) = MarkdownIt("commonmark").render(data.decode()).splitlines()[::2]
    assert paragraph.startswith("<p>")
    assert data.decode().count("\\") == 2


def test_a_lists_number_is_not_taken_for_its_text(tmp_path: Path) -> None:
    data, _ = filled(tmp_path / "x.md", "1. 1\n   letters\n")
    assert data == b"1. 1 LETTERS\n"
