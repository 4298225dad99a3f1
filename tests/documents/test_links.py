"""What documents point to is there: files, headings and tests."""

import re
from pathlib import Path

import pytest
from installed import is_missing

from documents.commands import ROOT, documents

DOCUMENTS = [*documents(), ROOT / "CHANGELOG.md"]


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if link.startswith("https://"):
            continue
        if is_missing(target):
            continue
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_are_named_exist(document: Path) -> None:
    named = re.findall(r"(?:[\w-]+/)*test_\w+\.py", document.read_text(encoding="utf-8"))
    paths = [ROOT / "tests" / name.removeprefix("tests/") for name in named]
    assert [path for path in paths if not path.is_file() and not is_missing(path)] == []
