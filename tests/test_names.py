import ast
from collections import defaultdict
from pathlib import Path

import pytest

import transformer_cli

PACKAGE = Path(transformer_cli.__file__).parent


@pytest.mark.long
def test_no_two_public_classes_share_a_name() -> None:
    files = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(str(path.relative_to(PACKAGE)))
    assert len(files) > 100
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}
