"""Pages and directories of cleaned text that another process saves or writes."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run
from cli.test_others_at_work import (
    Case,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
    test_of_two_commands_that_write_one_file_the_second_is_refused,
    test_what_is_replaced_keeps_its_owner_group_and_mode,
    test_what_someone_saves_meanwhile_is_kept,
)

from transformer_cli.base.writing import claim

__all__ = [
    "pytest_generate_tests",
    "test_nothing_is_written_into_a_run_or_a_model",
    "test_of_two_commands_that_write_one_file_the_second_is_refused",
    "test_what_is_replaced_keeps_its_owner_group_and_mode",
    "test_what_someone_saves_meanwhile_is_kept",
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
COMMANDS: dict[str, Case] = {
    "page": ("p.html", ["clean", "corpus.yaml", "-o", "cleaned", "--report", "p.html"]),
}
INTO_RUNS = [
    ("clean", "corpus.yaml", "-o", "RUN/cleaned"),
    ("clean", "corpus.yaml", "-o", "cleaned", "--report", "RUN/config.yaml"),
]


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
