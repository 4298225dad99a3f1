"""Alignments on the command line."""

import subprocess
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, assert_refused, run, start
from cli.test_translate_forms import (
    LINES,
    TEXT,
    here,
    killed_at_the_last_line,
    translate,
)

__all__ = ["here"]


def test_alignments_appear_whole_line_by_line(training: Training, here: Path) -> None:
    out = translate(training, here, "--alignments", "links").splitlines()
    links = (here / "links").read_text().split("\n")
    assert links.pop() == ""
    assert len(links) == len(LINES)
    for source, target, of_line in zip(LINES, out, links, strict=True):
        pairs = [tuple(map(int, link.split("-"))) for link in of_line.split()]
        assert all(src < len(source.split()) for src, _ in pairs)
        assert sorted({tgt for _, tgt in pairs}) == list(range(len(target.split())))
    (here / "links").unlink()
    (here / "in").write_bytes(TEXT.encode() + b"\xff\n")
    failed = run("translate", training.run, "-i", "in", "--alignments", "links", cwd=here)
    assert failed.code == 1
    assert not (here / "links").exists()


@pytest.mark.posix
def test_alignments_appear_only_with_their_translations(training: Training, here: Path) -> None:
    options = ["-i", "in", "-o", "/dev/full", "--alignments", "links"]
    assert run("translate", training.run, *options, cwd=here).code == 1
    assert not (here / "links").exists()


@pytest.mark.long
def test_a_reader_that_stops_early_is_no_error(training: Training, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"1 2 3 4\n" + b"\n" * 200_000)  # more than a pipe holds
    process = start(
        "translate",
        training.run,
        "-i",
        source,
        "--alignments",
        tmp_path / "links",
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
        assert list(tmp_path.iterdir()) == [source], "there are half of the alignments"
    finally:
        process.kill()


def test_with_alignments_it_starts_again(training: Training, here: Path) -> None:
    expected = translate(training, here)
    command = ("translate", training.run, "-i", "in", "-o", "out")
    assert run(*command, cwd=here, before=killed_at_the_last_line).code < 0
    finished = run(*command, "--alignments", "links", cwd=here)
    assert "out.partial: cannot resume with further outputs, or with input" in finished.err
    assert (here / "out").read_text() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alignments", "out", "-o", "out"], "-o and --alignments are both out"),
        (["--alignments", "in"], "--alignments in: is the file that -i reads"),
        (["--alignments", "-"], "--alignments needs the name of a file"),
        (["--alignments", "no/links"], "--alignments no/links: there is no directory no"),
    ],
)
def test_what_does_not_go_together_is_refused(
    training: Training, here: Path, options: list[str], message: str
) -> None:
    assert_refused(run("translate", training.run, "-i", "in", *options, cwd=here), 2, message)
