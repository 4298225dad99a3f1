"""Closed and full streams, and too little memory: one line where it can be said, and results."""

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, Finished, run, start
from installed import has_command

from transformer_cli.cli.process import find_shortage

pytestmark = pytest.mark.posix
NAMES = ("stdin", "stdout", "stderr")
_CLOSED: list[object] = []  # kept, or Python 3.14 would print that it cannot close them again


def close(*descriptors: int) -> None:
    """Be as a program that a shell has started with ``2>&-``."""
    for descriptor in descriptors:
        os.close(descriptor)
        _CLOSED.append(getattr(sys, NAMES[descriptor]))
        setattr(sys, NAMES[descriptor], None)


@pytest.mark.parametrize(
    ("command", "code"),
    [(["train", "nothing.yaml"], 2), (["translate", "nothing"], 2), (["nothing"], 2)],
)
def test_errors_without_a_stderr_are_on_no_other_stream(command: list[str], code: int) -> None:
    assert run(*command, before=partial(close, 2)) == Finished(code, "", "")


def test_results_are_written_without_a_stderr(training: Training) -> None:
    given = ("translate", training.run)
    expected = run(*given, stdin=b"1 2 3 4\n").out
    assert expected.count("\n") == 1
    assert run(*given, stdin=b"1 2 3 4\n", before=partial(close, 2)) == Finished(0, expected, "")


def test_a_training_without_any_stream(training: Training, tmp_path: Path) -> None:
    short = ("--set", "training.max_steps=1")
    command = ("train", training.config, *short, "--run-dir", tmp_path / "run")
    assert run(*command, before=partial(close, 0, 1, 2)) == Finished(0, "", "")
    assert (tmp_path / "run/checkpoints/step-00000001").is_dir()


@pytest.mark.long
@pytest.mark.skipif(not has_command("show"), reason="config show is not installed")
def test_a_shell_closes_stderr(training: Training) -> None:
    script = 'exec "$@" 2>&-'
    command = [sys.executable, "-m", "transformer_cli", "config", "show"]
    shown = subprocess.run(
        ["sh", "-c", script, "sh", *command, training.config], stdout=subprocess.PIPE
    )
    assert (shown.returncode, shown.stdout[:6]) == (0, b"seed: ")
    refused = subprocess.run(["sh", "-c", script, "sh", *command, "x"], stdout=subprocess.PIPE)
    assert (refused.returncode, refused.stdout) == (2, b"")


@pytest.mark.long_cases
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "transformer_cli", "train", "--help"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
        )
    message = os.strerror(errno.ENOSPC)
    assert done.stderr.decode() == f"transformer-cli: error: standard output: {message}\n"
    assert done.returncode == 1


def test_a_full_stderr_changes_no_code() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("nothing", stderr=full, stdout=subprocess.PIPE)
        assert process.communicate(timeout=PATIENCE)[0] == b""
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("can't start new thread"), "cannot start a thread"),
        (ImportError("libtorch.so: failed to map segment from shared object"), "out of memory"),
        (MemoryError(), "out of memory"),
    ],
)
def test_a_shortage_is_found_behind_other_errors(error: Exception, said: str) -> None:
    behind = ValueError("no backend")
    behind.__cause__ = error
    for each in (error, behind):
        assert str(find_shortage(each)).startswith(said)
    assert find_shortage(ValueError("no backend")) is None
    assert find_shortage(ImportError("cannot import name 'a' from 'b'")) is None
