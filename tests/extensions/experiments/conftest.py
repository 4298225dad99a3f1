"""A base config, and processes that run a stand-in for transformer-cli on its sweeps."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import children
import pytest
from copied_text import DATA

_WORKING = Path(__file__).with_name("working.py")
_BASE = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: words, min_freq: 1}
"""
)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with base.yaml."""
    (tmp_path / "base.yaml").write_text(_BASE)
    return tmp_path


@pytest.fixture
def start(directory: Path) -> Start:
    """Start a process on sweep.yaml, whose jobs take a moment each."""

    def start(jobs: int | str = 2, **env: str) -> "subprocess.Popen[bytes]":
        return children.start(
            [sys.executable, _WORKING, "sweep.yaml", "out", str(jobs)],
            cwd=directory,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )

    return start
