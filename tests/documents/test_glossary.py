"""docs/glossary.md: each name of code in it is one that the code has."""

import ast
import re
from collections import defaultdict
from functools import cache
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from documents.commands import ROOT
from transformer_cli.config.schema import Config

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| (`[^|]+`) \|$", PAGE, flags=re.M)
TERMS = [(term, name) for term, names in ROWS for name in re.findall(r"`([^`]+)`", names)]


@cache
def _members() -> dict[str, set[str]]:
    """Return the names that each class of the package defines; under '', all that it defines."""
    members: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "transformer_cli").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        members[""] |= set(_defined(tree)) | {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                members[node.name] |= set(_defined(node))
    return members


def _defined(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                names.append(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.append(name)
            case _:
                pass
    return names


def _is_setting(key: str) -> bool:
    """Whether the schema has a key, given as ``training.epochs``."""
    kinds: list[Any] = [Config]
    for name in key.split("."):
        models = [model for kind in kinds for model in _models(kind) if name in model.model_fields]
        if not models:
            return False
        kinds = [model.model_fields[name].annotation for model in models]
    return True


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for part in get_args(kind) for model in _models(part)]


def test_the_page_has_terms() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    headings = PAGE.count("\n## ")
    assert len(ROWS) == len(rows) - 2 * headings > 20
    terms = [term for term, _ in ROWS]
    assert len(terms) == len(set(terms))


@pytest.mark.long
@pytest.mark.parametrize(("term", "name"), TERMS, ids=[f"{term}: {name}" for term, name in TERMS])
def test_the_code_has_the_name(term: str, name: str) -> None:
    owner, _, member = name.rpartition(".")
    assert member in _members()[owner] or _is_setting(name)
