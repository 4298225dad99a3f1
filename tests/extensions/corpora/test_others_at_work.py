"""Directories of cleaned text that another process saves or writes."""

from pathlib import Path

import pytest
from cli.test_others_at_work import (
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

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
