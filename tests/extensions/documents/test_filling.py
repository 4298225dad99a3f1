"""Segments are filled sentence by sentence, with tags in slots or placed by alignments."""

from pathlib import Path

import pytest

from extensions.documents.fakes import Line, filled, shout, translating
from extensions.documents.test_po import HEADER
from transformer_cli.base.errors import InputError
from transformer_cli.extensions.documents.document import LinesDocument, Segment, Source
from transformer_cli.extensions.documents.filling import fill
from transformer_cli.extensions.documents.sentences import cut_sentences

XLIFF = """\
<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1">
<source>a <x id="9"/> b <g id="7">c</g></source></trans-unit></body></file></xliff>
"""


def keep_tags(text: str) -> Line:
    """Translate as a model with slots does: tags are words."""
    return Line(text.replace('a <x id="0"/>', '<x id="0"/> A'))


def test_tags_go_through_slots_where_there_are_some(tmp_path: Path) -> None:
    how = translating(keep_tags, protect=("tags",))
    data, result = filled(tmp_path / "x.xlf", XLIFF, how)
    assert b'><x id="9"/> A b <g id="7">c</g></target>' in data
    assert sum(one.is_aligned for _, one in result.pairs()) == 0


def test_tags_that_slots_lose_are_placed_by_alignments(tmp_path: Path) -> None:
    data, result = filled(tmp_path / "x.xlf", XLIFF, translating(shout, protect=("tags",)))
    assert b'>A <x id="9"/> B <g id="7">C</g></target>' in data
    assert sum(one.is_aligned for _, one in result.pairs()) == 1


def test_text_that_looks_like_a_tag_is_left_where_tags_have_slots(tmp_path: Path) -> None:
    text = "<p>Type &lt;b&gt; for <b>bold</b> text.</p><p>A <b>b</b>.</p>"
    data, result = filled(tmp_path / "x.html", text, translating(shout, protect=("tags",)))
    assert data.decode() == text.replace("A <b>b</b>.", "A <b>B</b>.")
    assert "has text that looks like one of its tags" in result.left[0]


def test_without_alignments_segments_that_would_lose_tags_are_left(tmp_path: Path) -> None:
    how = translating(can_align=False)
    data, result = filled(tmp_path / "x.xlf", XLIFF, how)
    assert data.decode() == XLIFF
    assert "because --engine ctranslate2 aligns no words" in result.left[0]
    text = HEADER + 'msgid "of %s"\nmsgstr ""\n'
    written, result = filled(tmp_path / "x.po", text, how, marks_fuzzy=False)
    assert b'#, fuzzy\nmsgid "of %s"\nmsgstr "OF %S"' in written
    assert result.summary()[1].endswith("x.po:8: without '%s', with '%S'")


def test_missing_numbers_are_reported(tmp_path: Path) -> None:
    text = "<p>25 dogs, 17 cars</p><p>30 <i id='40'>dogs</i></p><p>3 dogs</p>"
    how = translating(lambda line: Line(line.replace("17 ", "").replace("3 ", "three ")))
    data, result = filled(tmp_path / "x.html", text, how)
    assert data.decode() == text.replace("17 ", "").replace(">3 ", ">three ")
    assert result.summary() == [
        "filled 3 of 3 segments (1 with tags or accelerators placed by alignments)",
        f"numbers of the source are missing in 1; first: {tmp_path}/x.html:1",
    ]
    assert [one.has_to_be_read for one in result.fillings if one] == [True, False, False]


def test_filled_and_left_segments_add_up(tmp_path: Path) -> None:
    _, result = filled(tmp_path / "x.html", "<p>3 < 4 dogs</p><p>dog</p>")
    assert result.summary()[0] == "filled 1 of 2 segments"
    assert result.summary()[1].startswith("not filled: 1; first: ")


def test_forms_of_icu_are_left(tmp_path: Path) -> None:
    text = XLIFF.replace("a <x", "{n, plural, =1 {a} other {b}} <x")
    data, result = filled(tmp_path / "x.xlf", text)
    assert data.decode() == text
    assert result.left[0].endswith(
        "x.xlf:2: is an ICU message with forms, which are not translated"
    )


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("de", "Das kostet z. B. 5 €. Dr. Müller kommt usw. und geht.", 2),
        ("en", "Use e.g. this one. Dr. Smith left at 5 p.m. and slept.", 2),
        ("en", "Usage: x [OPTION]\n  -a  all of it\n  -b  nothing\n", 3),
        ("en", "This is a line that was wrapped at some seventy columns, and\ngoes on. End.", 2),
        ("pt-BR", "O Sr. Silva viu a Dra. Ana. Fim.", 2),
        ("xx", " \n ", 0),
    ],
)
def test_sentences_are_cut(language: str, text: str, sentences: int) -> None:
    spans = cut_sentences(text, language)
    assert len(spans) == sentences
    found = [text[start:end] for start, end in spans]
    assert all(one == one.strip() for one in found)
    assert "".join("".join(found).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x.po", f'{HEADER}msgid "schl\xadäft"\nmsgstr ""\n', 'msgstr "SCHLÄFT"'),
        ("x.xlf", XLIFF.replace("a <x", "schl&#xAD;äft <x"), '>SCHLÄFT <x id="9"/> B <g'),
        ("x.vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nschl&shy;äft\n", "SCHLÄFT\n"),
        ("x.md", "schl\xadäft\n", "SCHLÄFT\n"),
        ("x.txt", "schl\xadäft\n", "SCHLÄFT\n"),
    ],
)
def test_soft_hyphens_are_ignored(tmp_path: Path, name: str, text: str, expected: str) -> None:
    data, result = filled(tmp_path / name, text, translating(shout))
    assert expected in data.decode()
    assert result.left == []


class Careless(LinesDocument):
    """A faulty format in which exclamation marks become line breaks."""

    def written(self, segment: Segment, text: str) -> str:
        return text.replace("!", "\n")


class Unreadable(LinesDocument):
    """A format that cannot read its own output."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        if self.text.isupper():
            raise InputError(f"{source.name}:1: damaged")


@pytest.mark.parametrize("bad", [{3}, {0, 199}, set(range(0, 200, 3)), set(range(200))])
def test_segments_that_change_the_structure_are_left(bad: set[int]) -> None:
    lines = [f"bad x{n}! {n}\n" if n in bad else f"good {n}\n" for n in range(200)]
    document = Careless(Source("a", "".join(lines).encode(), ("en", "de")))
    result = fill(document, translating())
    left = {n for n, filling in enumerate(result.fillings) if filling is None}
    assert left == bad
    assert len(result.left) == len(bad)
    assert f"a:{min(bad) + 1}: its translation would change the file's structure" in result.left
    expected = [line if n in left else line.upper() for n, line in enumerate(lines)]
    assert document.write(result.fillings).decode() == "".join(expected)
    assert result.summary()[0] == f"filled {200 - len(left)} of 200 segments"


def test_a_filled_document_that_cannot_be_read_is_an_error() -> None:
    document = Unreadable(Source("a", b"b\nc\n", ("en", "de")))
    with pytest.raises(InputError, match="a:1: damaged in the filled document, so it is not"):
        fill(document, translating())


def test_segments_without_words_are_copied_unless_the_model_is_made_for_them(
    tmp_path: Path,
) -> None:
    text = HEADER + 'msgid "1/2"\nmsgstr ""\n'
    for translates_numbers in (False, True):
        how = translating(lambda _: Line("half"), translates_numbers=translates_numbers)
        data, _ = filled(tmp_path / "x.po", text, how)
        assert (b'msgstr "half"' if translates_numbers else b'msgstr "1/2"') in data
