"""Translations appear as soon as there is nothing more to read: through a pipe and a terminal."""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.conftest import Training
from cli.process import start
from transformer_cli.base.pipes import PolledReader, poll


@contextmanager
def pipe() -> Iterator[tuple[PolledReader, int]]:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as file:
        reader = poll(file)
        assert isinstance(reader, PolledReader)
        yield reader, write


@pytest.mark.posix
def test_a_reader_waits_unless_a_whole_line_is_there() -> None:
    with pipe() as (reader, write):
        assert reader.waits()
        os.write(write, b"one\ntwo\nthr")
        assert not reader.waits()
        assert reader.readline() == b"one\n"
        assert not reader.waits()
        assert reader.readline() == b"two\n"
        assert reader.waits()
        os.write(write, b"e")
        assert not reader.waits()  # a line is on its way
        os.write(write, b"e\n")
        os.close(write)
        assert reader.readline() == b"three\n"
        assert reader.waits()
        assert reader.readline() == b""


def test_files_are_not_polled(tmp_path: Path) -> None:
    memory = io.BytesIO(b"one\n")
    assert poll(memory) is memory
    (tmp_path / "in").write_bytes(b"one\n")
    with (tmp_path / "in").open("rb") as file:
        assert poll(file) is file


@pytest.mark.posix
def test_a_line_through_a_pipe_is_translated_before_the_next_one_comes(training: Training) -> None:
    process = start(
        "translate", training.run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for lines in (b"1\n", b"2\n", b"3\n4\n"):
        process.stdin.write(lines)
        for _ in lines.splitlines():
            assert process.stdout.readline().endswith(b"\n")
    process.stdin.write(b"5")
    process.stdin.close()
    assert process.stdout.read().count(b"\n") == 1
    assert process.wait() == 0


@pytest.mark.posix
def test_a_line_typed_on_a_terminal_is_translated_at_once(
    training: Training, tmp_path: Path
) -> None:
    if sys.platform == "win32":
        return
    import pty
    import termios

    terminal, of_process = pty.openpty()
    attributes = termios.tcgetattr(of_process)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(of_process, termios.TCSANOW, attributes)
    process = start("translate", training.run, stdin=of_process, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout is not None
    for line in (b"1\n", b"2\n"):
        os.write(terminal, line)
        assert process.stdout.readline().endswith(b"\n")
    os.write(terminal, b"3\n\x04")  # Ctrl-D, typed before the line is read
    assert process.stdout.readline().endswith(b"\n")
    assert process.wait() == 0
    os.close(terminal)
    os.close(of_process)
