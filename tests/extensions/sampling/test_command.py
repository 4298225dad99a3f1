"""Samples on the command line."""

from pathlib import Path

from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_translate_forms import in_small_chunks, killed_at_the_last_line


def test_samples_are_drawn_by_their_seed(training: Training, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("1 2 3 4\n" * 2 + "5 5\n")
    drawn = [
        run("translate", training.run, "-i", text, "--sample", seed).out for seed in ("1", "1", "2")
    ]
    assert drawn[0] == drawn[1]
    first, second, _ = drawn[0].splitlines()
    assert first == second
    refused = run("translate", training.run, "-i", text, "--sample", "1", "--beam-size", "2")
    assert_refused(refused, 2, "--sample draws one translation of a line")


def test_a_translation_is_resumed_with_the_same_seed_only(
    training: Training, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("1 2 3 4\n\n4 3 2 1\n5 5\n")
    command = ("translate", training.run, "-i", "in", "-o", "out", "--sample")
    assert run(*command, "1", cwd=tmp_path, before=killed_at_the_last_line).code < 0
    again = run(*command, "2", cwd=tmp_path, before=in_small_chunks)
    assert "sample was 1, now 2" in again.err
