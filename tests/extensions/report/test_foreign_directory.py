"""Links in a run that a page describes."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run

pytestmark = pytest.mark.posix


def test_a_page_goes_through_no_link_in_the_run(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("")
    (own_run / "report.html").symlink_to(tmp_path / "page.html")
    for options in ((), ("-o", own_run / "report.html")):
        assert_refused(run("report", own_run, *options), 1, "run/report.html: is a link")
    assert (tmp_path / "page.html").read_text() == ""
    named = run("report", own_run, "-o", tmp_path / "page.html")
    assert named.code == 0, named.err
    assert "<html" in (tmp_path / "page.html").read_text()
