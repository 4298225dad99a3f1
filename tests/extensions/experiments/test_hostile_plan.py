"""Damaged plans of sweeps."""

import json
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from cli.process import Finished, assert_refused, run

from transformer_cli.base.artifact import sum_json
from transformer_cli.base.errors import RunError
from transformer_cli.extensions.experiments.results import read_sweep_plan

SECONDS, BYTES = 300, 16 * 2**30


"""The most that a command may take here; each takes a small part."""


def limited(*arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"1 2 3\n") -> Finished:
    return run(*arguments, cwd=cwd, stdin=stdin, before=_limit)


def _limit() -> None:
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


PLAN: dict[str, Any] = {
    "points": ["base"],
    "seeds": [1],
    "reference": "base",
    "metric": "bleu",
    "evaluate": [],
}


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "change",
    [
        {"metric": "comet"},
        {"metric": None},
        {"points": "base"},
        {"points": ["../../elsewhere"]},
        {"seeds": ["1"]},
        {"seeds": 1},
        {"reference": []},
        {"evaluate": {}},
    ],
)
def test_a_sweeps_plan_is_as_it_has_to_be(
    change: dict[str, Any], own_run: Path, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    shutil.copytree(own_run, sweep / "runs" / "base" / "seed-1")
    (sweep / "sweep.json").write_text('{"program": "transformer-cli sweep", "format": 1}')
    plan = {**PLAN, **change}
    text = json.dumps({"content": plan, "sha256": sum_json(plan)})
    (sweep / "plan.json").write_text(text)
    assert_refused(limited("report", sweep), 1, f"{sweep / 'plan.json'}: missing or damaged")


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "1" * 5000, "\x00", "{}"])
def test_a_plan_that_is_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunError, match=r"plan\.json: missing or damaged"):
        read_sweep_plan(tmp_path)
