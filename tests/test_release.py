"""The version stands in one place, and a release's notes are the changelog's."""

import re
import subprocess
import sys
from pathlib import Path

from transformer_cli import __version__

ROOT = Path(__file__).parents[1]


def notes(version: str) -> tuple[int, str, str]:
    command = [sys.executable, str(ROOT / ".github" / "changelog_part.py"), version]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


def test_a_versions_notes_are_its_part_of_the_changelog() -> None:
    code, text, _ = notes("0.1.0")
    assert (code, text.startswith("Never published.")) == (0, True)
    assert "\n- Training: " in text
    assert "\n## " not in text


def test_a_version_that_the_changelog_has_not_is_refused() -> None:
    assert notes("0.1") == (1, "", "CHANGELOG.md: has no part '## 0.1'; name the version there\n")


def test_the_release_reads_the_version_where_it_is() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    file = "transformer_cli/base/packages.py"
    (expression,) = re.findall(rf"sed -n 's/(.+)/\\1/p' (?={re.escape(file)})", workflow)
    pattern = expression.replace(r"\(", "(").replace(r"\)", ")")
    source = (ROOT / file).read_text(encoding="utf-8")
    assert re.findall(pattern, source, re.M) == [__version__]


def test_no_document_names_a_file_of_one_version() -> None:
    for path in (ROOT / "README.md", ROOT / "CITATION.cff", *ROOT.glob("docs/*.[mi]*")):
        assert not re.search(r"transformer_cli-\d", path.read_text(encoding="utf-8")), path
