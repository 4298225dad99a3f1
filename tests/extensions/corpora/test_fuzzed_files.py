"""Damaged and hostile files: an error of one line, in bounded memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzzing.py")
FORMATS = ["text", "tsv", "jsonl", "parquet", "po", "tmx"]
GIB = 1 << 30
MOST_KIB = 256 << 10


def fuzz(forms: list[str], count: int, bomb_bytes: int) -> dict[str, int]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [",".join(forms), str(count), "1", str(bomb_bytes)]
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert found["grown_kib"] < MOST_KIB, found
    errors: dict[str, int] = found["errors"]
    return errors


@pytest.mark.long
@pytest.mark.posix  # peak memory
def test_a_few_of_each_format() -> None:
    pytest.importorskip("pyarrow")
    errors = fuzz(FORMATS, 28, GIB // 16)
    assert all(errors.values()), errors


@pytest.mark.long
@pytest.mark.posix
@pytest.mark.parametrize("form", FORMATS)
def test_two_thousand(form: str) -> None:
    pytest.importorskip("pyarrow")
    errors = fuzz([form], 2000, 8 * GIB)[form]
    assert 500 < errors < 2000
