"""Directories that another process writes."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_others_at_work import here

from transformer_cli.base.writing import claim

__all__ = ["here"]


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "command", [("clean", "corpus.yaml", "-o"), ("export", "RUN", "--format", "hub")]
)
def test_directories_are_claimed_too(
    training: Training, here: Path, command: tuple[str, ...]
) -> None:
    (here / "new").mkdir()
    given = [str(training.run) if part == "RUN" else part for part in command]
    with claim(here / "new"):
        refused = run(*given, "new", cwd=here)
    assert_refused(refused, 1, "new: another process is writing it")
    assert run(*given, "new", cwd=here).code == 0
    assert not list(here.glob("*.partial*"))
