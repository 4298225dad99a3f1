"""A run's state that a stranger has written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.process import assert_refused
from faults.test_hostile import write_content
from faults.test_hostile_models import limited


def test_a_state_has_a_step(own_run: Path) -> None:
    with_state(own_run, lambda state: {key: state[key] for key in state if key != "step"})
    assert_refused(limited("report", own_run), 1, "state.json: damaged")


def with_state(run_directory: Path, change: Callable[[Any], Any]) -> None:
    for path in (run_directory / "checkpoints").glob("*/state.json"):
        write_content(path, change(json.loads(path.read_bytes())["content"]))
