"""Python files of a foreign working directory are imported by no job of an experiment."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import run
from faults.test_foreign_modules import assert_unharmed, attacked, foreign

__all__ = ["foreign"]

pytestmark = pytest.mark.posix


@pytest.mark.long
def test_a_sweep(training: Training, foreign: Path) -> None:
    shutil.copy(training.config, foreign / "tiny.yaml")
    settings = "training.max_steps: [1]"
    (foreign / "grid.yaml").write_text(f"base: tiny.yaml\ngrid: {{{settings}}}\nseeds: 1\n")
    swept = run("sweep", "grid.yaml", "--threads", "1", cwd=foreign, before=attacked)
    assert_unharmed(swept, foreign)


def run_a_stage() -> None:
    from transformer_cli.extensions.experiments.child import Command, run_command

    here = Path.cwd()
    schema = ["config", "schema"]
    command = Command(schema, here, here / "stop", here / "owner", here / "schema.json")
    assert run_command(command).code == 0
    assert Path("schema.json").stat().st_size


def find_gpus() -> None:
    from transformer_cli.extensions.experiments.runner import list_gpus

    assert list_gpus() == []


@pytest.mark.long_cases
@pytest.mark.parametrize("start", [run_a_stage, find_gpus])
def test_what_else_is_started(foreign: Path, start: Callable[[], None]) -> None:
    assert_unharmed(run(cwd=foreign, before=partial(attacked, start)), foreign)
