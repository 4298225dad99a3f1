"""No job of an experiment imports Python files from a foreign working directory."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import run
from faults.test_foreign_modules import assert_unharmed, attacked, foreign, run_in_copy

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
    from transformer_cli.extensions.experiments import child

    with Path("schema.json").open("wb") as file, Path("lock").open("wb") as lock:
        started = child.start(["config", "schema"], file.fileno(), 2, {}, lock.fileno())
        assert started.wait() == 0
    assert Path("schema.json").stat().st_size


def find_gpus() -> None:
    from transformer_cli.extensions.experiments.runner import list_places

    assert list_places("auto", 2) == [{}, {}]


@pytest.mark.long_cases
@pytest.mark.parametrize("start", [run_a_stage, find_gpus])
def test_other_processes_that_are_started(foreign: Path, start: Callable[[], None]) -> None:
    assert_unharmed(run(cwd=foreign, before=partial(attacked, start)), foreign)


STARTING = """\
import subprocess
from transformer_cli.base.child import leave_out_working_directory
from transformer_cli.extensions.experiments.child import start
leave_out_working_directory()
with open(".lock", "w") as lock:
    start(["--version"], 1, 2, {}, lock.fileno()).wait()
"""


def test_a_command_is_of_the_package_that_starts_it(tmp_path: Path) -> None:
    assert run_in_copy(STARTING, tmp_path) == "transformer-cli 9.8.7\n"
