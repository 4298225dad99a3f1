"""Text from strangers: it steers no terminal, and none of it takes for ever."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.base.errors import make_visible, shorten_middle
from transformer_cli.base.messages import log, warn
from transformer_cli.cli.display import print_error, say

STEERING = "a\x1b]0;owned\x07\x9b2J\u202etxt.exe\u2066\u200f\u061cb"


SHOWN = r"a\x1b]0;owned\x07\x9b2J\u202etxt.exe\u2066\u200f\u061cb"


HIDDEN = set("\x00\x07\x08\x1b\x7f\x9b\u2028\u202a\u202e\u2066\u2069\u200e\u200f\u061c\udcff")


def test_what_steers_is_shown_and_text_stays_as_it_is() -> None:
    assert make_visible(STEERING) == SHOWN
    assert not HIDDEN & set(make_visible("".join(HIDDEN)))
    text = "Wörter, 日本語, می‌خواهم, עברית\tund\nmehr 👩‍🚀"
    assert make_visible(text) == text


@pytest.mark.parametrize("length", [0, 99, 100, 101, 5000])
def test_a_long_line_loses_its_middle(length: int) -> None:
    text = "".join(chr(0x4E00 + place) for place in range(length))
    shown = shorten_middle(text, 100)
    assert shown == text if length <= 100 else len(shown) == 100
    head, _, tail = shown.partition("…")
    assert text.startswith(head)
    assert text.endswith(tail)


def test_lines_on_the_terminal_do_not_steer_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(f"{STEERING}: no\nsuch run; {'99 ' * 1700}; give another", [STEERING])
    warn(f"{STEERING}\r\n", STEERING)
    log(f"{STEERING}\nsecond line")
    say(f"{STEERING}\n{STEERING}")
    out, err = capsys.readouterr()
    assert out == f"{SHOWN}\n{SHOWN}\n"
    first, *others = err.splitlines()
    assert first.startswith(f"transformer-cli: error: {SHOWN}: no such run; 99 99 ")
    assert first.endswith("99 ; give another")
    assert len(first) < 1100
    assert others == [
        f"transformer-cli: error: {SHOWN}",
        f"warning: {SHOWN} : {SHOWN}",
        SHOWN,
        "second line",
    ]


def test_digits_without_end_are_not_echoed(training: Training, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    given = ["--src", "in.txt", "--ref", "in.txt", "--beam-size", "9" * 5000]
    refused = run("evaluate", training.run, *given, cwd=tmp_path)
    assert_refused(refused, refused.code)
    assert len(refused.err) < 1100


def test_a_runs_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    refused = run("translate", tmp_path / f"run{STEERING}")
    assert SHOWN in refused.err
    assert not HIDDEN & set(refused.err)
