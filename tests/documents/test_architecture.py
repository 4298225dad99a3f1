"""docs/architecture.md has the tree's packages, layers and data flow, neither more nor fewer."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from installed import is_missing

from benchmarks.data_flow import measure
from documents.commands import ROOT

PACKAGE = ROOT / "transformer_cli"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_packages_are_those_of_the_tree() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", _section("Packages"), flags=re.M)
    listed = {name for row in rows for name in re.findall(r"`(\w+)/`", row)}
    assert listed == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_each_extension_has_a_page_that_the_index_links_to() -> None:
    pages = ROOT / "docs" / "extensions"
    index = (pages / "README.md").read_text(encoding="utf-8")
    for manifest in PACKAGE.glob("extensions/*/manifest.py"):
        name = manifest.parent.name
        assert f"\n| [{name}]({name}.md) |" in index
        about = (pages / f"{name}.md").read_text(encoding="utf-8").split("\n\n")[1]
        module = import_module(f"transformer_cli.extensions.{manifest.parent.name}.manifest")
        needs = getattr(module, "needs", ())
        assert set(re.findall(r"\]\((\w+)\.md\)", about)) >= set(needs)


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE)
    paths = [PACKAGE / name for name in named]
    assert [path for path in paths if not path.is_file() and not is_missing(path)] == []


def test_the_layers_are_those_of_import_linter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = _section("Import rules").split("```")[1].strip().splitlines()
    assert shown == [layer.replace("transformer_cli.", "") for layer in layers]


@pytest.mark.long
def test_the_data_flow_is_what_a_debugger_sees(tmp_path: Path) -> None:
    for title, files in measure(tmp_path):
        listed = _section("Data flow").partition(f"**{title}**: {len(files)} files: ")[2]
        assert re.findall(r"`([\w/]+\.py)`", listed.partition("\n\n")[0]) == sorted(files)
