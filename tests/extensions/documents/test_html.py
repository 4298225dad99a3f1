"""HTML: runs of text are translated, and all other bytes stay the same."""

from pathlib import Path

import pytest

from extensions.documents.fakes import Line, filled, read, reverse, shout, translating
from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.filling import fill

PAGE = """\
<!DOCTYPE html>
<html lang="en-GB" class=x>
<head><title>The page</title><meta charset="utf-8">
<style>p { color: red }</style><script>var text = "a < b";</script></head>
<body>
  <h1 id=top>A &amp; B</h1>
  <!-- a comment -->
  <p>
    Click <b>here</b> or
    <a href="x.html?a=1&amp;b=2" title="kept">there</a>.
    See <code>ls -l</code>.
  </p>
  <ul><li>One<li>Two <span translate="no">Three</span></ul>
  <pre>left as it is</pre><p class="a notranslate">Also this</p><p>12 &nbsp; 34</p>
  <p>First.<br>Second<img src="a.png">.</p>
</body>
</html>
"""
EXPECTED = (
    PAGE.replace("The page", "THE PAGE")
    .replace('lang="en-GB"', 'lang="de"')
    .replace("A &amp; B", "A &amp; B")
    .replace(
        """Click <b>here</b> or
    <a href="x.html?a=1&amp;b=2" title="kept">there</a>.
    See <code>ls -l</code>.""",
        """CLICK <b>HERE</b> OR <a href="x.html?a=1&amp;b=2" title="kept">THERE</a>. """
        "SEE <code>ls -l</code>.",
    )
    .replace(">One<li>Two", ">ONE<li>TWO")
    .replace("First.<br>Second<img", "FIRST.<br>SECOND<img")
)
EXAMPLES = {".html": [PAGE]}


def test_runs_of_text_are_translated(tmp_path: Path) -> None:
    data, result = filled(tmp_path / "x.html", PAGE)
    assert data.decode() == EXPECTED
    assert result.left == []
    assert [segment.place.rpartition(":")[2] for segment in read(tmp_path / "x.htm", PAGE).segments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>a <b>b</b></p>", "<p><b>b</b> a</p>"),
        ("<p>a <b>b <i>c</b> d</i></p>", "<p>d <b><i>c b</b> a</i></p>"),
        ("a &lt;b&gt; c", "c &lt;b&gt; a"),
        ("<a>a b</a><a>c</a><br><i>d</i>", "<a>c</a> <a>b a</a><br><i>d</i>"),
        ("<p>one<p>two three", "<p>one<p>three two"),
        (
            "<p>&#13;&Tab;a b&#32;<i> c</i>&#10;&nbsp;</p>",
            "<p>&#13;&#9;<i>c</i> b a&#32;&#160;</p>",
        ),
        ("<p>a b<code>never closed", "<p>b a<code>never closed"),
        ("<p title='x>y'>a b", "<p title='x>y'>b a"),
        ("a b\r\n<hr/>\r\nc\xa0d e", "b a\r\n<hr/>\r\ne d c"),
    ],
)
def test_broken_html_is_translated_as_far_as_it_is_text(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert filled(tmp_path / "x.html", text, translating(reverse))[0].decode() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>{% if b < c %}a{% endif %} {# e #}f", "<p>{# e #}f {% if b < c %}a{% endif %}"),
        ('{% x %}<p {{ y > 1 }}><a href="{% u "z" %}">a b</a><%= d %>', None),
        ("{% block x %}\n<p>a b</p>\n{{ c('d') }}\n", None),
        ('<?php if ($a > 1): ?><p>a b</p><?= $x->y > 1 ? "c d" : "e" ?>', None),
        ('<script{{ x }}>"c d"</script><a{% if y %} z{% endif %}>a b</a>', None),
    ],
)
def test_a_templates_marks_stay(tmp_path: Path, text: str, expected: str | None) -> None:
    data, result = filled(tmp_path / "x.html", text, translating(reverse))
    assert data.decode() == (expected or text.replace("a b", "b a"))
    assert result.left == []


@pytest.mark.parametrize("text", ["3 < 4 dogs", "a<", "a <= b", "dogs <3 cats"])
def test_text_with_a_sign_that_begins_no_tag_is_left(tmp_path: Path, text: str) -> None:
    data, result = filled(tmp_path / "x.html", f"<p>{text}</p><p>a b</p>", translating(reverse))
    assert data.decode() == f"<p>{text}</p><p>b a</p>"
    assert result.summary() == [
        "filled 1 of 2 segments",
        f"not filled: 1; first: {tmp_path}/x.html:1: has a < that does not begin a tag",
    ]


def test_a_word_with_its_reading_stays(tmp_path: Path) -> None:
    ruby = "<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>"
    data, result = filled(tmp_path / "x.html", f"<p>a {ruby} b</p>", translating(reverse))
    assert data.decode() == f"<p>{ruby} b a</p>"
    assert result.left == []


def test_a_language_is_replaced_if_it_is_the_source_language(tmp_path: Path) -> None:
    for language in ("en", "fr"):
        text = f"<HTML LANG={language}-US data-lang=en><p lang=en>a</p>"
        expected = text.replace("LANG=en-US", "LANG=de").replace(">a<", ">A<")
        assert filled(tmp_path / "x.html", text)[0].decode() == expected


def test_encodings_stay(tmp_path: Path) -> None:
    text = "<meta charset=iso-8859-1><p>é</p><pre>ü</pre>"
    data, _ = filled(tmp_path / "x.html", text.encode("latin-1"))
    assert data == text.replace("é", "É").encode("latin-1")


def test_characters_that_the_charset_lacks_are_references(tmp_path: Path) -> None:
    page = "<meta charset=cp1250><p>ł €</p>".encode("cp1250")
    document = read(tmp_path / "x.html", page)
    written = fill(document, translating(lambda _: Line("ł ğ"))).data
    assert written == "<meta charset=cp1250><p>ł &#287;</p>".encode("cp1250")


def test_a_page_without_a_charset_is_utf8(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x.html:1: not utf-8 .* iconv -f NAME -t UTF-8"):
        read(tmp_path / "x.html", "<p>ł €</p>".encode("cp1250"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.html", b"<meta charset=utf-8>\xe4"),
        ("x.xlf", b"<a>\xe4"),
        ("x.po", b'msgid ""\nmsgstr "\xe4"\n'),
    ],
)
def test_no_encoding_is_advised_if_a_document_declares_it(
    tmp_path: Path, name: str, data: bytes
) -> None:
    with pytest.raises(InputError, match=r"not utf-8 .*; correct the declared encoding"):
        read(tmp_path / name, data)


@pytest.mark.parametrize("label", ["iso-8859-1", "Latin1", "US-ASCII"])
def test_latin_1_is_windows_1252(tmp_path: Path, label: str) -> None:
    text = f"<script charset=utf-8></script><meta charset={label}><p>\u0153 \u20ac</p>"
    data, _ = filled(tmp_path / "x.html", text.encode("cp1252"))
    assert data == text.replace("\u0153", "\u0152").encode("cp1252")
    data, _ = filled(tmp_path / "x.html", (text[:-7] + "é\x81").encode("latin-1"))
    assert data.decode("latin-1").endswith("<p>É\x81")


def test_a_segment_of_very_many_tags_is_left(tmp_path: Path) -> None:
    text = "<p>" + "<b> <i>" * 3000 + "a" + "</i> x</b>" * 3000
    data, result = filled(tmp_path / "x.html", text)
    assert data.decode() == text
    assert result.left[0].endswith("x.html:1: more than 200 tags")


def test_an_element_without_an_end_is_reported(tmp_path: Path) -> None:
    text = "\ufeffHello<p>Use <code>foo</p><p>More text</p>"
    data, result = filled(tmp_path / "x.html", text)
    assert data.decode() == "\ufeffHELLO<p>USE <code>foo</p><p>More text</p>"
    assert result.left == [f"{tmp_path}/x.html:1: everything from <code> on, which has no end"]


def test_a_reference_of_thousands_of_digits_stays(tmp_path: Path) -> None:
    text = f"<p>dog &#{'9' * 5000};</p>"
    assert filled(tmp_path / "x.html", text)[0].decode().startswith("<p>DOG &amp;#9")


@pytest.mark.parametrize("start", ["<a ", "<!-- x>", "<![CDATA[x>"])
def test_text_that_would_take_html_parser_hours_is_refused(tmp_path: Path, start: str) -> None:
    with pytest.raises(InputError, match=r"x\.html: not HTML: too many unclosed tags or comments"):
        read(tmp_path / "x.html", start * 100_000)


@pytest.mark.parametrize(
    "inner",
    [
        '<svg width="9"><title>x y</title><path d="M0"/></svg>',
        '<picture><source srcset="a"><img src="b" alt="c d"></picture>',
        '<fa-icon name="x"></fa-icon>',
        "<nobr></nobr>",
        "<script>a b</script>",
        "<template><p>a b</p></template>",
        "<object>a b</object>",
        "<iframe>a b</iframe>",
        "<textarea>a b</textarea>",
        "<unknown/>",
    ],
)
def test_inline_markup_does_not_cut_a_sentence(tmp_path: Path, inner: str) -> None:
    text = "<p>One {} two <nobr>three</nobr> <my-b>four</my-b>.</p>"
    document = read(tmp_path / "x.html", text.format(inner))
    assert len(document.segments) == 1
    data, result = filled(tmp_path / "x.html", text.format(inner), translating(shout))
    expected = "<p>ONE {} TWO <nobr>THREE</nobr> <my-b>FOUR</my-b>.</p>"
    assert data.decode() == expected.format(inner)
    assert result.left == []


def test_words_stay_apart_where_tags_meet(tmp_path: Path) -> None:
    text = "<p>a, b<wbr><b> c d</b><img><i> e</i>, f<wbr>g h.</p>"
    data, _ = filled(tmp_path / "x.html", text)
    assert data.decode() == "<p>A, B<wbr> <b>C D</b><img> <i>E</i>, FG<wbr> H.</p>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>a <b {no}>b <u {yes}>c d</u></b> e</p>", "<p><b {no}>b <u {yes}>c d</u></b> e a</p>"),
        ("<p {no}>a <b>b</b> <p>c</p></p> d e", "<p {no}>a <b>b</b> <p>c</p></p> e d"),
        ("<p {no}>a <code {yes}>b c</code></p>", "<p {no}>a <code {yes}>b c</code></p>"),
        ('<p class="x notranslate">a b</p> c d', '<p class="x notranslate">a b</p> d c'),
        ("<p {no}>a b<br {yes}>c d</p>", "<p {no}>a b<br {yes}>c d</p>"),
        ("<b {yes}>a b</b>", "<b {yes}>b a</b>"),
    ],
)
def test_an_untranslatable_element_is_left(tmp_path: Path, text: str, expected: str) -> None:
    no, yes = 'translate="no"', 'translate="YES"'
    data, result = filled(tmp_path / "x.html", text.format(no=no, yes=yes), translating(reverse))
    assert data.decode() == expected.format(no=no, yes=yes)
    assert result.left == []


@pytest.mark.parametrize(
    "formula",
    [
        "$a_b$",
        "$x &lt; y + z$",
        r"$$\sum_i x_i$$",
        r"\(a b\)",
        "\\[\na\nb\n\\]",
        r"$\text{cost \$5 or so}$",
        "$5 \\times 3$",
    ],
)
def test_formulas_stay(tmp_path: Path, formula: str) -> None:
    data, _ = filled(tmp_path / "x.html", f"<p>a {formula} b</p>", translating(reverse))
    assert data.decode() == f"<p>{formula} b a</p>"


@pytest.mark.parametrize(
    "text",
    [
        "a $5 and $6",
        "a $5, or 6$ b",
        "Pay $5, or 6$ now",
        "Pay $5 for a (US$) note",
        r"a \$b\$",
        "US$5 or A$6",
        "$PATH:$HOME/b",
    ],
)
def test_amounts_are_no_formulas(tmp_path: Path, text: str) -> None:
    data, _ = filled(tmp_path / "x.html", f"<p>{text}</p>")
    assert data.decode() == f"<p>{text.upper()}</p>"
    assert filled(tmp_path / "x.md", text)[0].decode() == text.upper()


def test_soft_hyphens_are_ignored(tmp_path: Path) -> None:
    text = "<p>schl&shy;äft im H<b>au&#173;s</b><img alt='a&shy;b'></p>"
    assert read(tmp_path / "x.html", text).segments[0].plain == "schläft im Haus"
    data, _ = filled(tmp_path / "x.html", text)
    assert data.decode() == "<p>SCHLÄFT IM <b>HAUS</b><img alt='a&shy;b'></p>"
