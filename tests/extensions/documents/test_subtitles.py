"""Subtitles: the text of cues is translated, and all other bytes stay the same."""

from pathlib import Path

import pytest

from extensions.documents.fakes import Line, filled, read, reverse, translating
from transformer_cli.base.errors import InputError

SRT = """\
1
00:00:01,000 --> 00:00:02,000
It is <i>late</i>,
go home.

2
00:00:03,000 --> 00:00:04,000 X1:1
- Who?
- Me & {\\an8}you.


3
00:00:05,000 --> 00:00:06,000
"""
VTT = """\
WEBVTT - a title

NOTE
left as it is

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Bob>Me &amp; <c.loud>you</c>

00:03.000 --> 00:04.000
<b>Hi</b> <00:03.500>there"""
EXAMPLES = {".srt": [SRT], ".vtt": [VTT]}


def test_srt(tmp_path: Path) -> None:
    expected = (
        SRT.replace("It is <i>late</i>,\ngo home.", "IT IS <i>LATE</i>, GO HOME.")
        .replace("Who?", "WHO?")
        .replace("Me & {\\an8}you", "ME & {\\an8}YOU")
    )
    assert filled(tmp_path / "x.srt", SRT)[0].decode() == expected
    windows = SRT.replace("\n", "\r\n").encode("utf-8-sig")
    found = filled(tmp_path / "x.srt", windows)[0]
    assert found == expected.replace("\n", "\r\n").encode("utf-8-sig")


def test_vtt(tmp_path: Path) -> None:
    expected = (
        VTT.replace("Me &amp; <c.loud>you", "ME &amp; <c.loud>YOU")
        .replace("Hi", "HI")
        .replace("there", "THERE")
    )
    assert filled(tmp_path / "x.vtt", VTT)[0].decode() == expected


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("a <00:01.200>dog <00:01.500>sleeps", "<00:01.200>sleeps <00:01.500>dog a"),
        (
            "a<00:01.200><b> dog</b><00:01.500><i> sleeps</i> here",
            "here <00:01.200><i>sleeps</i><00:01.500> <b>dog</b> a",
        ),
    ],
)
def test_times_in_a_cue_stay_in_order(tmp_path: Path, cue: str, expected: str) -> None:
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{cue}\n"
    data, result = filled(tmp_path / "x.vtt", text, translating(reverse))
    assert data.decode() == text.replace(cue, expected)
    assert result.left == []


def test_a_time_has_a_space_on_one_side_of_it(tmp_path: Path) -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\na dog,<00:01.200><i> that</i> sleeps\n"

    def translate(_: str) -> Line:
        return Line("t u v w x", ((2, 1), (0, 2), (2, 3), (2, 4)))

    data, _ = filled(tmp_path / "x.vtt", text, translating(translate))
    assert data.decode().endswith("\nt <00:01.200>u v <i>w x</i>\n")


@pytest.mark.parametrize("start", ["<v Anna>", "<v.loud Anna>", "<v\tAnna>"])
def test_each_voice_keeps_its_line(tmp_path: Path, start: str) -> None:
    text = f"WEBVTT\n\n00:01.000 --> 00:02.000\n{start}A dog\nsleeps.\n  <v Bert>A cat.</v>\n"
    data, result = filled(tmp_path / "x.vtt", text)
    assert data.decode() == text.replace("A dog\nsleeps.", "A DOG SLEEPS.").replace(
        "A cat", "A CAT"
    )
    assert result.left == []


def test_long_cues_are_broken_into_lines_of_like_lengths(tmp_path: Path) -> None:
    long = translating(lambda _: Line("word " * 12 + "--> end"))
    written = filled(tmp_path / "x.srt", SRT.replace("<i>late</i>", "late"), long)[0].decode()
    cue = written.split("\n\n")[0].split("\n")[2:]
    assert cue == ["word " * 6 + "word", "word " * 5 + "→ end"]


def test_lines_are_not_broken_within_tags_and_words(tmp_path: Path) -> None:
    cue = "00:01.000 --> 00:02.000\n"
    text = f"WEBVTT\n\n{cue}The <v  Jean-Luc>dog {'of-the-house ' * 6}here.\n"
    data, _ = filled(tmp_path / "x.vtt", text)
    shown = data.decode().partition(cue)[2]
    assert "<v  Jean-Luc>" in shown
    assert "-\n" not in shown


def test_a_cue_without_an_empty_line_before_it_is_one(tmp_path: Path) -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nDog\n2\n00:00:03,000 --> 00:00:04,000\nCat\n"
    data, _ = filled(tmp_path / "x.srt", text)
    assert data.decode() == text.replace("Dog", "DOG").replace("Cat", "CAT")


def test_a_cue_of_srt_may_have_empty_lines(tmp_path: Path) -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nA dog.\n\n2 cats.\n\n2\n00:00:03,000 --> 00:00:04,000\n"
    )
    data, _ = filled(tmp_path / "x.srt", text)
    assert data.decode() == text.upper()
    data, _ = filled(tmp_path / "x.vtt", text)
    assert data.decode() == text.replace("A dog", "A DOG")


@pytest.mark.parametrize("name", ["x.srt", "x.vtt"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_an_empty_line_ends_a_cue(tmp_path: Path, name: str, end: str) -> None:
    times = "00:00:00.000 --> 00:00:02.000 align:start"
    text = f"WEBVTT\n\n{times}\n \na dog\n\t\n<c>a cat</c>\n\n{times}\na bird\n ".replace("\n", end)
    data, result = filled(tmp_path / name, text)
    expected = text.replace("a dog", "A DOG").replace("a cat", "A CAT").replace("a bird", "A BIRD")
    assert data.decode() == expected
    assert result.left == []


def test_a_file_without_times_is_not_subtitles(tmp_path: Path) -> None:
    assert filled(tmp_path / "x.srt", "")[0] == b""
    assert filled(tmp_path / "x.vtt", "WEBVTT\n\nNOTE A dog\n")[1].fillings == []
    with pytest.raises(InputError, match=r"x\.srt: no subtitles: it has no line of times"):
        read(tmp_path / "x.srt", "A dog\n")
