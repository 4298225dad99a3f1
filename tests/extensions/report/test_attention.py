from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run, run_anew

from transformer_cli.extensions.report import attention_picture

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_picture_is_drawn_and_the_translation_printed(
    training: Training, tmp_path: Path, suffix: str
) -> None:
    picture = tmp_path / f"picture{suffix}"
    finished = run("attention", training.run, "1 2 3 4", "-o", picture)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out == run("translate", training.run, stdin=b"1 2 3 4\n").out
    assert picture.read_bytes().startswith(STARTS[suffix])
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.posix
@pytest.mark.long
def test_no_home_directory_and_no_locale(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    monkeypatch.setenv("LC_ALL", "C")
    finished = run_anew(
        "attention", training.run, "1 2", "--translation", "ä 4", "-o", "x.svg", cwd=tmp_path
    )
    assert (finished.code, finished.err) == (0, "")


def test_a_script_without_a_font_is_named(training: Training, tmp_path: Path) -> None:
    finished = run("attention", training.run, "1 2", "-o", tmp_path / "x.svg", before=_without_thai)
    assert finished.code == 0
    assert finished.err.startswith(f"warning: {tmp_path}/x.svg: no font has CJK, THAI, drawn as")
    assert "fonts-noto-cjk" in finished.err
    assert finished.err.count("\n") == 1


def _without_thai() -> None:
    attention_picture._find_fonts = lambda text: (["DejaVu Sans"], ["CJK", "THAI"])


def test_a_given_translation_is_looked_at(training: Training, tmp_path: Path) -> None:
    options = ["--kind", "decoder", "--layer", "1", "--head", "2", "--translation", "4 4 1"]
    finished = run("attention", training.run, "1 2", "-o", tmp_path / "x.svg", *options)
    assert (finished.code, finished.err, finished.out) == (0, "", "4 4 1\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "picture.jpg"], "-o picture.jpg: ends in none of .png, .svg and .pdf"),
        (["-o", "x.png", "--layer", "2"], "--layer 2: the model has 1"),
        (["-o", "x.png", "--head", "3"], "--head 3: the model has 2"),
        (["-o", "no/x.png"], "-o no/x.png: there is no directory no"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    training: Training, tmp_path: Path, options: list[str], message: str
) -> None:
    finished = run("attention", training.run, "1 2", *options, cwd=tmp_path)
    assert_refused(finished, 2, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [(" ", "is empty"), ("1\n2", "no line of UTF-8 text"), ("1 \udcff", "no line of UTF-8 text")],
)
def test_what_is_no_sentence_is_refused(
    training: Training, tmp_path: Path, text: str, reason: str
) -> None:
    finished = run("attention", training.run, text, "-o", tmp_path / "x.png")
    assert_refused(finished, 2, "SENTENCE", reason)
    options = ("--translation", text, "-o", tmp_path / "x.png")
    finished = run("attention", training.run, "1 2", *options)
    assert_refused(finished, 2, "--translation", reason)
