"""Directories of cleaned text that another process saves or writes."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run
from cli.test_others_at_work import (
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

from transformer_cli.base.writing import claim

__all__ = [
    "pytest_generate_tests",
    "test_nothing_is_written_into_a_run_or_a_model",
]

CORPUS = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{tsv: a.tsv, src_column: 1, tgt_column: 2}]
  split: {val: 1}
tokenizer: {kind: words}
"""
INTO_RUNS = [("clean", "corpus.yaml", "-o", "RUN/cleaned")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "corpus.yaml").write_text(CORPUS)
    (tmp_path / "a.tsv").write_text("x\ty\nz\tw\n")
    return tmp_path


def test_directories_are_claimed_too(here: Path) -> None:
    (here / "new").mkdir()
    with claim(here / "new"):
        refused = run("clean", "corpus.yaml", "-o", "new", cwd=here)
    assert_refused(refused, 1, "new: another process is writing it")
    assert run("clean", "corpus.yaml", "-o", "new", cwd=here).code == 0
    assert not list(here.glob("*.partial*"))
