"""Pages that another process saves or writes."""

from pathlib import Path

from cli.process import run
from cli.test_others_at_work import (
    Case,
    here,
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
    test_what_is_replaced_keeps_its_owner_group_and_mode,
    test_what_someone_saves_meanwhile_is_kept,
)

__all__ = [
    "here",
    "pytest_generate_tests",
    "test_nothing_is_written_into_a_run_or_a_model",
    "test_what_is_replaced_keeps_its_owner_group_and_mode",
    "test_what_someone_saves_meanwhile_is_kept",
]

COMMANDS: dict[str, Case] = {
    "report": ("p.html", ["report", "RUN", "-o", "p.html"]),
}
INTO_RUNS = [("report", "RUN", "-o", "RUN/page.html")]


def test_a_page_about_a_run_may_be_named_in_its_own_place(own_run: Path) -> None:
    finished = run("report", "run", "-o", "run/report.html", cwd=own_run.parent)
    assert (finished.code, finished.out) == (0, "run/report.html\n")
