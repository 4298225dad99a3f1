"""The program sets how threads wait before it loads torch, but the user's setting wins."""

import os
import subprocess
import sys

import children
import pytest

DRIVER = """\
import os, sys
from transformer_cli import cli

def show():
    print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)

cli._run = show
cli.main()
"""
OF_PYTHON = "import os; from transformer_cli.inference import loading; print(os.environ.keys())"


def out_of(program: str, **settings: str) -> str:
    unset = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    environment = {key: value for key, value in os.environ.items() if key not in unset} | settings
    process = children.start(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
    )
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.decode()


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, "3000"),
        ({"GOMP_SPINCOUNT": "5"}, "5"),
        ({"OMP_WAIT_POLICY": "active"}, "None"),
        ({"GOMP_SPINCOUNT": "5", "OMP_WAIT_POLICY": "active"}, "5"),
    ],
    ids=str,
)
def test_the_program_waits_briefly_unless_told_otherwise(
    settings: dict[str, str], count: str
) -> None:
    assert out_of(DRIVER, **settings) == f"{count} False\n"


def test_an_importer_is_left_alone() -> None:
    assert "GOMP_SPINCOUNT" not in out_of(OF_PYTHON)
