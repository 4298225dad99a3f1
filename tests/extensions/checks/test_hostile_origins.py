"""Origins of a run that cannot be found."""

import json
from pathlib import Path

import pytest

from transformer_cli.extensions.checks.seen_pairs import _find_origins
from transformer_cli.runs.directory import RunDirectory


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "circle"])
def test_a_teacher_that_cannot_be_found_is_no_obstacle(name: str, tmp_path: Path) -> None:
    student = tmp_path / "student"
    student.mkdir()
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "distill.json").write_text(json.dumps({"teachers": [str(tmp_path / name)]}))
    found = [run.path for run in _find_origins([RunDirectory(student)])]
    assert found == [student, *([tmp_path / name] if name == "circle" else [])]
