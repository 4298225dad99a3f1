"""docs/architecture.md lists the tree's files, layers and functions, neither more nor fewer."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents.commands import ROOT

PACKAGE = ROOT / "transformer_cli"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WAYS = ("Training", "Translating")


def _sections(level: int, text: str) -> dict[str, str]:
    """Return the text under each heading of a level, by its title."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _listed_files() -> Iterator[str]:
    for room, text in _sections(3, _sections(2, PAGE)["Rooms"]).items():
        for name in re.findall(r"^\| `([^`]+\.py)` \|", text, flags=re.M):
            yield room.removeprefix("transformer_cli/") + name


def _is_docstring_only(path: Path) -> bool:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return path.name == "__init__.py" and len(body) <= 1


def _way(name: str) -> tuple[str, list[str]]:
    """Return the heading of a way, and its functions as ``file:function``."""
    (title, text), *rest = (
        each
        for each in _sections(3, _sections(2, PAGE)["The way of a sentence"]).items()
        if each[0].startswith(name)
    )
    assert not rest
    steps = re.findall(r"^\d+\. (.*)$", text, flags=re.M)
    assert all(re.match(r"`[^`:]+:[^`]+`", step) for step in steps)
    return title, [step.split("`")[1] for step in steps]


def _defines(path: Path, function: str) -> bool:
    """Whether a file defines a function, given as ``function`` or ``Class.function``."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in function.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_rooms_list_the_files_of_the_tree() -> None:
    listed = list(_listed_files())
    assert len(listed) == len(set(listed))
    files = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not _is_docstring_only(path)
    }
    assert set(listed) - files == set(), "listed in docs/architecture.md, but not in the tree"
    assert files - set(listed) == set(), "in the tree, but not listed in docs/architecture.md"


def test_the_layers_are_those_of_import_linter() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    shown = _sections(2, PAGE)["Import rules"].split("```")[1].strip().splitlines()
    assert shown == [layer.replace("transformer_cli.", "") for layer in layers]


@pytest.mark.parametrize("name", WAYS)
def test_the_functions_on_a_sentences_way_exist(name: str) -> None:
    _, steps = _way(name)
    assert len(steps) > 5
    missing = [
        step
        for step in steps
        for file, function in [step.split(":")]
        if not (PACKAGE / file).is_file() or not _defines(PACKAGE / file, function)
    ]
    assert missing == []


@pytest.mark.parametrize("name", WAYS)
def test_the_numbers_of_files_and_steps_on_a_sentences_way_are_stated(name: str) -> None:
    title, steps = _way(name)
    files = {step.split(":")[0] for step in steps}
    assert title == f"{name}: {len(files)} files, {len(steps)} steps"


def test_decisions_are_grouped_by_room() -> None:
    groups = _sections(3, _sections(2, PAGE)["Decisions"])
    assert all((PACKAGE / room).is_dir() for room in groups)
    assert sum(text.count("\n- **") for text in groups.values()) >= 35
