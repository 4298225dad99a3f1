"""docs/packages.md lists the packages that pyproject.toml needs."""

import re
import tomllib

from documents.commands import ROOT


def test_the_table_has_each_needed_package_once() -> None:
    page = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| (\w+) \| [\d.]+ \|", page, flags=re.M)
    needed = [re.split(r"[<>=]", each)[0] for each in project["dependencies"]]
    assert sorted(listed) == sorted(needed)
