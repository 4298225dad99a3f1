"""The documents as a site: every page is in its navigation, and every link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.site import write_source


def test_each_page_is_in_the_navigation(tmp_path: Path) -> None:
    write_source(tmp_path)
    pages = {path.relative_to(tmp_path / "docs").as_posix() for path in tmp_path.rglob("*.md")}
    first, *sections = yaml.safe_load((tmp_path / "mkdocs.yml").read_text("utf-8"))["nav"]
    listed = [first, *(page for section in sections for part in section.values() for page in part)]
    assert sorted(listed) == sorted(pages)


def test_each_file_that_a_page_links_to_is_in_the_site(tmp_path: Path) -> None:
    write_source(tmp_path)
    for page in (tmp_path / "docs").rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).is_file(), f"{page}: {target}"


@pytest.mark.long
def test_its_links_lead_somewhere(tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    write_source(tmp_path)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    subprocess.run(build, cwd=tmp_path, check=True)
    assert (tmp_path / "site" / "index.html").is_file()
