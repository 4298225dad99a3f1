import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Training
from cli.process import PATIENCE, assert_refused, run, signal_at, start
from transformer_cli.cli.declaring import build_options
from transformer_cli.cli.translate import TranslateOptions
from transformer_cli.cli.translation import (
    RowFormat,
    count_lines,
    open_format,
)

TRANSLATOR = "transformer_cli.inference.translator:TextTranslator"
# Blank lines cost nothing, so that a text of more lines than are read at a time is soon translated.
LONG = b"1 2 3 4\n" + b"\n" * 4998


def translate(training: Training, text: str | bytes, *options: str | Path) -> str:
    stdin = text.encode() if isinstance(text, str) else text
    finished = run("translate", training.run, *options, stdin=stdin)
    assert finished.code == 0
    assert finished.err == ""
    return finished.out


def test_line_n_in_is_line_n_out(training: Training) -> None:
    finished = run("translate", training.run, stdin=b"1 2\n\n3 4 5\n")
    assert finished.code == 0
    assert finished.err == ""
    first, second, third, end = finished.out.split("\n")
    assert first
    assert second == ""
    assert third
    assert end == ""


def test_nothing_in_is_nothing_out(training: Training) -> None:
    assert translate(training, "") == ""


@pytest.mark.parametrize(
    "text",
    [b"1 2 3 4\n\n4 3 2 1", b"1 2 3 4\r\n\r\n4 3 2 1\r\n", b"\xef\xbb\xbf1 2 3 4\n \t\n4 3 2 1\n"],
    ids=["no last line end", "CRLF", "byte order mark"],
)
def test_forms_of_the_same_text_translate_alike(training: Training, text: bytes) -> None:
    assert translate(training, text) == translate(training, "1 2 3 4\n\n4 3 2 1\n")


def test_files_and_streams_are_the_same(training: Training, tmp_path: Path) -> None:
    text = "1 2 3 4\n\n4 3 2 1\n"
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(text)
    assert translate(training, "", "-i", source, "-o", target) == ""
    expected = translate(training, text, "-i", "-", "-o", "-")
    assert target.read_text() == expected
    assert sorted(tmp_path.iterdir()) == [source, target]
    refused = run("translate", training.run, "-i", source, "-o", source)
    assert_refused(refused, 2, "is the file that -i reads")
    assert source.read_text() == text


def test_a_run_can_be_moved_and_used_from_anywhere(training: Training, tmp_path: Path) -> None:
    moved = shutil.copytree(training.run, tmp_path / "elsewhere")
    finished = run("translate", "elsewhere", cwd=moved.parent, stdin=b"1 2 3 4\n")
    assert finished.out == translate(training, "1 2 3 4\n")


def test_batches_change_nothing(training: Training) -> None:
    text = "".join(f"{' '.join('123456'[: 1 + n % 6])}\n" for n in range(40))
    small = translate(training, text, "--batch-tokens", "50")
    assert small == translate(training, text, "--batch-tokens", "8000")
    assert small.count("\n") == 40


def test_max_length_is_obeyed(training: Training) -> None:
    lines = translate(training, "1 2 3 4\n4 3 2 1\n", "--max-length", "2").splitlines()
    assert len(lines) == 2
    assert all(len(line.split()) <= 2 for line in lines)
    longer = translate(training, "1 2 3 4\n4 3 2 1\n").splitlines()
    assert [line.split()[:2] for line in longer] == [line.split() for line in lines]


def test_beam_search(training: Training) -> None:
    assert translate(training, "1 2 3 4\n\n", "--beam-size", "3").count("\n") == 2


def test_an_error_midway_leaves_no_output(training: Training, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    refused = run("translate", training.run, "-o", target, stdin=LONG + b"\xff\n")
    assert_refused(refused, 1, ":5000: not UTF-8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix
@pytest.mark.parametrize(
    ("name", "code"),
    [("SIGKILL", -9), ("SIGTERM", 143), ("SIGINT", 130)],
)
def test_a_signal_midway_leaves_no_output(
    training: Training, tmp_path: Path, name: str, code: int
) -> None:
    target = tmp_path / "out.txt"
    end = partial(signal_at, TRANSLATOR, "translate_encoded", 2, signal.Signals[name])
    finished = run("translate", training.run, "-o", target, stdin=LONG, before=end)
    assert finished.code == code
    assert finished.out == ""
    assert finished.err.strip() == ""
    left = [path.name for path in tmp_path.iterdir()]
    # What is killed cannot tidy up, but the name tells that it is a part.
    assert all(each.startswith("out.txt.partial") for each in left)
    assert not left or name == "SIGKILL"


def test_an_older_output_stays_until_the_new_one_is_whole(
    training: Training, tmp_path: Path
) -> None:
    target = tmp_path / "out.txt"
    target.write_text("older\n")
    assert run("translate", training.run, "-o", target, stdin=LONG + b"\xff\n").code == 1
    assert target.read_text() == "older\n"


@pytest.mark.long
def test_a_reader_that_stops_early_is_no_error(training: Training, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"1 2 3 4\n" + b"\n" * 200_000)  # more than a pipe holds
    process = start(
        "translate",
        training.run,
        "-i",
        source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().count(b"\n") == 1
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0
        assert list(tmp_path.iterdir()) == [source]
    finally:
        process.kill()


@pytest.mark.posix
@pytest.mark.long
def test_a_full_disk_is_said_in_one_line(training: Training) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(
            "translate",
            training.run,
            stdin=subprocess.PIPE,
            stdout=full,
            stderr=subprocess.PIPE,
        )
        _, err = process.communicate(b"1 2 3 4\n", PATIENCE)
    assert err.startswith(b"transformer-cli: error: ")
    assert err.count(b"\n") == 1
    assert process.returncode == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("descriptor", "message"),
    [(0, b"standard input is closed; give a file with -i"), (1, b"standard output is closed")],
)
def test_a_closed_stream_is_said_in_one_line(
    training: Training, descriptor: int, message: bytes
) -> None:
    process = start(
        "translate",
        training.run,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=partial(os.close, descriptor),
    )
    _, err = process.communicate(timeout=PATIENCE)
    assert err.startswith(b"transformer-cli: error: " + message)
    assert err.count(b"\n") == 1
    assert process.returncode == 1


@pytest.mark.long
@pytest.mark.posix
def test_a_person_is_answered_line_by_line(training: Training) -> None:
    expected = translate(training, "1 2 3 4\n4 3 2 1\n").splitlines(keepends=True)
    import pty

    keyboard, terminal = pty.openpty()
    process = start(
        "translate",
        training.run,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(terminal)
    watchdog = threading.Timer(PATIENCE, process.kill)  # reads below would wait for ever
    watchdog.start()
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == b"type one sentence per line; Ctrl-D to end\n"
        for typed, answer in zip((b"1 2 3 4\n", b"4 3 2 1\n"), expected, strict=True):
            os.write(keyboard, typed)
            assert process.stdout.readline().decode() == answer
        os.write(keyboard, b"\x04")
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
        assert process.wait() == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.stdout and process.stdout.close()
        process.stderr and process.stderr.close()
        os.close(keyboard)


# --- progress -------------------------------------------------------------------------------------


@pytest.mark.posix
def test_a_terminal_shows_the_number_of_all_lines(training: Training, tmp_path: Path) -> None:
    import pty
    import termios

    (tmp_path / "in.txt").write_text("1 2\n" * 7)
    screen, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 100))
    process = start(
        "translate",
        training.run,
        *("-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"),
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # Linux ends a terminal that nobody has open so
        while data := os.read(screen, 1 << 16):
            shown += data
    os.close(screen)
    assert process.wait(PATIENCE) == 0
    assert b"/7 [" in shown


@pytest.mark.parametrize(
    ("name", "text", "options", "lines"),
    [
        ("in.txt", b"a\n\nb\n", {}, 3),
        ("in.txt", b"", {}, 0),
    ],
)
def test_lines_are_counted_where_that_is_cheap(
    tmp_path: Path, name: str, text: bytes, options: dict[str, str], lines: int | None
) -> None:
    (tmp_path / name).write_bytes(text)
    paths = {"run": tmp_path, "input_": tmp_path / name}
    given: dict[str, Any] = {**paths, "output": tmp_path / f"out{Path(name).suffix}", **options}
    built = build_options(TranslateOptions, "translate", **given)
    form = open_format(built)
    assert isinstance(form, RowFormat)
    assert count_lines(built) == lines
    assert count_lines(TranslateOptions(tmp_path)) is None


def test_lines_of_a_large_file_are_not_counted(tmp_path: Path) -> None:
    large = tmp_path / "in.txt"
    with large.open("wb") as file:
        file.truncate((1 << 30) + 1)  # a hole, which takes no room
    assert count_lines(TranslateOptions(tmp_path, input_=large)) is None
