"""Directories of exported models that another process writes, or that lie in a run."""

from pathlib import Path

from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_others_at_work import (
    here,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

from transformer_cli.base.writing import claim

__all__ = ["here", "pytest_generate_tests", "test_nothing_is_written_into_a_run_or_a_model"]

INTO_RUNS = [("export", "RUN", "RUN/exported", "--format", "hub")]


def test_directories_are_claimed_too(training: Training, here: Path) -> None:
    (here / "new").mkdir()
    command = ("export", training.run, "--format", "hub", "new")
    with claim(here / "new"):
        refused = run(*command, cwd=here)
    assert_refused(refused, 1, "new: another process is writing it")
    assert run(*command, cwd=here).code == 0
    assert not list(here.glob("*.partial*"))
