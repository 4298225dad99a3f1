"""Markdown: text is translated, and markup stays."""

import re
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from extensions.documents.fakes import Line, filled, reverse, translating

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
EXAMPLES = {".md": [PAGE]}


def test_text_is_translated(tmp_path: Path) -> None:
    data, result = filled(tmp_path / "x.md", PAGE)
    assert data.decode() == EXPECTED
    assert [line.split(":", 1)[1] for line in result.left] == [
        "30: is HTML, which is not translated in Markdown"
    ]


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
        ("- [ ] a b\n- [x]  c", "- [ ] b a\n- [x]  c"),
        ("a {%b%}c{%endb%} `d` {{ e }}f", "`d` {{ e }}f {%b%}c{%endb%} a"),
        ("# a b {#c .d}\n{: .e}", "# b a {#c .d}\n{: .e}"),
        ("| a |\n|--|\n| a \\| `b\\|c` d |", "| a |\n|--|\n| `b\\|c` d \\| a |"),
        ("[a b]({{ c.d }}/{{ e f }}) g", "g [b a]({{ c.d }}/{{ e f }})"),
        ('[a b]({{< ref "c d" >}} "t"){: .e} f', 'f [b a]({{< ref "c d" >}} "t"){: .e}'),
        ("[a b]({% link c.md %}) d", "d [b a]({% link c.md %})"),
        ("a ![b c]({{ d e }}) f", "![b c]({{ d e }}) f a"),
        ("[a]: {{ b.c }}/d 't'\n\ne [f g][a]", "[a]: {{ b.c }}/d 't'\n\n[g f][a] e"),
        ("<a href={{ b.c }}>a b</a> d", "d <a href={{ b.c }}>b a</a>"),
        ("a ~5 b ~6 c 3~5天和6~8天", "3~5天和6~8天 c ~6 b ~5 a"),
        ("a $`x_i`$ b", "$`x_i`$ b a"),
        ("a `b`{.c} d <b>e</b>{: .f}", "<b>e</b>{: .f} `b`{.c} d a"),
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
def test_text_around_tags_stays_there(tmp_path: Path, text: str) -> None:
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


@pytest.mark.parametrize(
    "text",
    [
        '!!! note "a dog"\n    a cat\n\n⟨a bear⟩\n',
        '=== "a tab"\n\n    a dog\n\n??? tip\n\n    a dog\n',
        '--8<-- "a/dog.md"\n\n⟨a dog⟩\n',
        "⟨a dog⟩ ![a dog](x.png){ width=50% } ⟨d⟩\n",
        "*[DOG]: a dog\n*[CAT]: a cat\n",
        "⟨a dog⟩\n{: .fs-6 }\n\n{: .warning }\n⟨a cat⟩\n",
        '- ⟨a bird⟩\n{:.x #y z="a b"}\n\n[TOC]\n\n1. TOC\n{:toc}\n',
        "[^1]: ⟨a dog⟩\n⟨a cat⟩\n\n    ⟨a bird⟩\n\n[^a]: ⟨a⟩\n",
        "$$\nx = a dog\n- y\n$$\n\n\\[\nx_i a dog\n\\]\n\n⟨a cat⟩\n",
        "\\begin{align}\na dog\n\\end{align}\n\n⟨a cat⟩\n",
        "⟨a⟩ $x_i$ ⟨b⟩ $$a dog$$ ⟨c⟩ \\(n\\) ⟨d⟩ \\[x = a dog\\]\n",
        "⟨it is⟩ $5 ⟨and not⟩ $6 ⟨or⟩ \\[⟨all⟩\\]\n",
        "import A from \"a\";\nimport {\n  B,\n} from 'b'\n\n⟨import a dog⟩\n",
        "$$\n⟨a⟩ $⟨b⟩\n\n⟨a dog⟩ $x\\$$\n\n⟨costs⟩ 5$\n",
        ":::note[a dog]\n\n⟨a cat⟩\n\n:::\n\n::: tip a dog\n⟨a cat⟩\n:::\n",
        "> [!NOTE]\n> ⟨a dog⟩\n\n> [!tip]- a cat\n> ⟨a dog⟩\n",
        "⟨a⟩ [[dog|a cat]] ⟨bird⟩ :dog: ⟨bear⟩\n",
        '{% tab title="a dog" %}\n⟨a cat⟩\n{% endtab %}\n',
    ],
)
def test_markup_of_dialects_stays_and_its_text_is_translated(tmp_path: Path, text: str) -> None:
    source = re.sub("[⟨⟩]", "", text)
    expected = re.sub("⟨(.*?)⟩", lambda match: match[1].upper(), text)
    for end in ("\n", "\r\n"):
        data, result = filled(tmp_path / "x.md", source.replace("\n", end))
        lines = data.decode().split(end)
        assert " ".join(lines).split() == expected.split()
        assert len(lines) >= expected.count("\n")  # a paragraph of two lines becomes one
        assert result.left == []


@pytest.mark.parametrize(
    "text",
    [
        "in `groupId: 1` der `version`: `1.0` im",
        "a `x`, `y` und `z` b",
        "der **eins**/**zwei** schläft im",
        "ein *rot*-*blau* läuft und ~~alt~~/~~neu~~ schläft",
        '**"a" b** c',
        "a*b*c `d`e",
    ],
)
@pytest.mark.parametrize("sign", ["", '"', "。", "*", "`", "_", "("])
def test_translations_have_the_same_code_and_emphases(tmp_path: Path, text: str, sign: str) -> None:
    def translate(line: str) -> Line:
        words = re.findall(r"\w+", line)
        places = range(len(line.split()))
        links = tuple((place, min(place, len(words) - 1)) for place in places)
        return Line(" ".join(f"{sign}{word}{sign}" for word in words), links)

    data, result = filled(tmp_path / "x.md", text, translating(translate))
    parser = MarkdownIt("commonmark").enable("strikethrough")
    before, after = (
        Counter(
            (child.type, child.content if child.type == "code_inline" else "")
            for child in parser.parseInline(one)[0].children or ()
            if child.type not in ("text", "text_special")
        )
        for one in (text, data.decode())
    )
    assert before == after
    assert result.left == [] or sign == "*"


def test_entities_are_read(tmp_path: Path) -> None:
    text = "K&ouml;nig &copy; &amp; &lt;b&gt; a&mdash;b&#33; `&copy;`\n"
    data, _ = filled(tmp_path / "x.md", text)
    assert data.decode() == "KÖNIG © &amp; &lt;B&gt; A—B&#33; `&copy;`\n"


def test_a_translation_begins_no_kept_line(tmp_path: Path) -> None:
    for start in ('!!! note "a"', '=== "a"', "[^1]: a", "::: a", "[!NOTE]", "$$ a $$"):
        data, result = filled(tmp_path / "x.md", "a b\n", translating(lambda _: Line(start)))  # noqa: B023
        assert data.decode().startswith("\\")
        assert data.decode().replace("\\", "") == f"{start}\n"
        assert result.left == []


def test_html_blocks_with_text_are_reported(tmp_path: Path) -> None:
    text = "<!-- a -->\n\n<p>\n  <img>&nbsp;{{ a }}\n</p>\n\n<pre>a</pre>\n\n<div>\na\n</div>\n"
    data, result = filled(tmp_path / "x.md", text)
    assert data.decode() == text
    assert [line.rpartition("x.md:")[2] for line in result.left] == [
        "9: is HTML, which is not translated in Markdown"
    ]


def test_a_lists_number_is_not_taken_for_its_text(tmp_path: Path) -> None:
    data, _ = filled(tmp_path / "x.md", "1. 1\n   letters\n")
    assert data == b"1. 1 LETTERS\n"


def test_a_translation_makes_no_markup_of_dialects(tmp_path: Path) -> None:
    for translation in ("x[^2] y", "x $`y`$", "x :dog: y"):
        data, result = filled(tmp_path / "x.md", "a b\n", translating(lambda _: Line(translation)))  # noqa: B023
        assert data.decode().replace("\\", "") == f"{translation}\n"
        assert "\\" in data.decode()
        assert result.left == []


def test_attributes_stay_at_their_link(tmp_path: Path) -> None:
    how = translating(lambda _: Line("v w x y z", ((0, 4),)))  # most words are not aligned
    data, _ = filled(tmp_path / "x.md", "[a b](c){ .d } e f\n", how)
    assert data == b"v w x y [z](c){ .d }\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a **b** `x`.", "**b** `x`. a"),
        ("use `x` **b**.", "`x` **b**. use"),
        ("see `a` and **b** (`c`), d", "d **b** (`c`), `a` and see"),
        ("a **b**`x` c", "c **b**`x` a"),
    ],
)
def test_spaces_between_tags_stay(tmp_path: Path, text: str, expected: str) -> None:
    data, _ = filled(tmp_path / "x.md", text, translating(reverse))
    assert data.decode() == expected


@pytest.mark.parametrize(("depth", "left"), [(99, 0), (100, 1), (30_000, 1)])
def test_text_that_is_nested_too_deep_is_reported(tmp_path: Path, depth: int, left: int) -> None:
    _, result = filled(tmp_path / "x.md", f"dog\n\n{'> ' * depth}cat\n", translating(reverse))
    assert len(result.fillings) == 2 - left
    assert [one.rpartition("x.md")[2] for one in result.left] == [
        ":3: is nested more than 100 deep"
    ] * left
