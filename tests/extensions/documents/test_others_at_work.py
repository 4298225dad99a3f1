"""Documents that are filled while others save or write the same files."""

from pathlib import Path

import pytest
from cli.test_others_at_work import (
    Case,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
    test_what_is_replaced_keeps_its_owner_group_and_mode,
    test_what_someone_saves_meanwhile_is_kept,
)

__all__ = [
    "pytest_generate_tests",
    "test_nothing_is_written_into_a_run_or_a_model",
    "test_what_is_replaced_keeps_its_owner_group_and_mode",
    "test_what_someone_saves_meanwhile_is_kept",
]

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "1 2"\nmsgstr ""\n'
COMMANDS: dict[str, Case] = {
    "in place": ("de.po", ["translate", "RUN", "-i", "de.po", "-o", "de.po"]),
    "document": ("x.po", ["translate", "RUN", "-i", "de.po", "-o", "x.po"]),
    "page": ("p.html", ["translate", "RUN", "-i", "de.po", "-o", "x.po", "--report", "p.html"]),
}
INTO_RUNS = [("translate", "RUN", "-i", "de.po", "-o", "x.po", "--report", "RUN/report.html")]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "de.po").write_text(PO)
    return tmp_path
