"""Nothing is written into an exported model."""

import shutil
from pathlib import Path

import pytest
from cli.test_others_at_work import (
    pytest_generate_tests,
    test_nothing_is_written_into_a_run_or_a_model,
)

__all__ = ["pytest_generate_tests", "test_nothing_is_written_into_a_run_or_a_model"]

EXPORTED = Path(__file__).parent / "fixtures" / "v1" / "exported"
INTO_RUNS = [
    ("translate", "exported", "-i", "in.txt", "-o", "exported/settings.yaml"),
    ("translate", "exported", "-i", "in.txt", "-o", "RUN/config.yaml"),
    ("translate", "RUN", "-i", "in.txt", "-o", "exported/x", "--ensemble", "exported"),
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    shutil.copytree(EXPORTED, tmp_path / "exported")
    (tmp_path / "in.txt").write_text("1 2\n3\n")
    return tmp_path
