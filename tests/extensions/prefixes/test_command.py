"""Prefixes on the command line."""

from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_translate_forms import in_small_chunks, killed_at_the_last_line, translate


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text("1 2 3 4\n\n4 3 2 1\n5 5\n")
    (tmp_path / "starts").write_text("6 6\n\n\n1 1\n")
    return tmp_path


def test_each_line_has_its_start(training: Training, here: Path) -> None:
    found = translate(training, here, "--prefix-file", "starts").splitlines()
    plain = translate(training, here).splitlines()
    assert found[0].startswith("6 6")
    assert found[1:3] == plain[1:3]
    assert found[3].startswith("1 1")


@pytest.mark.parametrize(
    ("starts", "message"),
    [("1\n\n", "ends before line 3"), ("1\n\n\n\n\n", "has a line 5, but")],
)
def test_as_many_starts_as_lines(training: Training, here: Path, starts: str, message: str) -> None:
    (here / "starts").write_text(starts)
    options = ("-i", "in", "-o", "out", "--prefix-file", "starts")
    refused = run("translate", training.run, *options, cwd=here)
    assert_refused(refused, 1, f"starts: {message}")
    assert {path.name for path in here.iterdir()} == {"in", "starts"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-i", "in", "-o", "in", "--prefix-file", "in"], "-o in: is the file that"),
        (["-i", "in", "--prefix-file", "none"], "; check --prefix-file"),
        (["--prefix-file", "-"], "-i and --prefix-file are both standard input; name a file"),
        (["-i", "in*", "-o", "new", "--prefix-file", "in"], "--prefix-file is for one file"),
        (["-i", "in", "--prefix-file", "in", "--engine", "ctranslate2"], "--prefix-file"),
    ],
)
def test_options_that_conflict_are_refused(
    training: Training, here: Path, options: list[str], message: str
) -> None:
    assert_refused(run("translate", training.run, *options, cwd=here), 2, message)


def test_a_line_of_ten_megabytes_is_refused_by_number(training: Training, here: Path) -> None:
    (here / "long").write_text("1 2\n" + "x" * 10_000_000)
    options = ("-i", "in", "--prefix-file", "long", "--engine", "torch")
    refused = run("translate", training.run, *options, cwd=here)
    assert_refused(refused, 1, "long:2: the line is longer than 4 MiB; ")


@pytest.mark.long
def test_an_interrupted_translation_goes_on_with_the_same_starts_alone(
    training: Training, here: Path
) -> None:
    expected = translate(training, here, "--prefix-file", "starts")
    command = ("translate", training.run, "-i", "in", "-o", "out", "--prefix-file", "starts")
    go_on = partial(run, cwd=here, before=in_small_chunks)
    assert run(*command, cwd=here, before=killed_at_the_last_line).code < 0
    assert "prefixes was" in go_on(*command[:-2]).err
    assert run(*command, cwd=here, before=killed_at_the_last_line).code < 0
    finished = go_on(*command)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out").read_text() == expected
