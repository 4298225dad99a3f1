"""A page whose place is in a run."""

from pathlib import Path

from cli.process import run
from cli.test_others_at_work import here

__all__ = ["here"]


def test_a_page_about_a_run_may_be_named_in_its_own_place(own_run: Path, here: Path) -> None:
    finished = run("report", "run", "-o", "run/report.html", cwd=here)
    assert (finished.code, finished.out) == (0, "run/report.html\n")
