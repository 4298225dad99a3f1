"""Damaged plans of sweeps."""

import json
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from cli.process import Finished, assert_refused, run

from transformer_cli.base.errors import RunError
from transformer_cli.extensions.experiments.groups import read_sweep_plan

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
    ("change", "said"),
    [
        ({"metric": "comet"}, "damaged, metric: Input should be 'bleu'"),
        ({"metric": None}, "damaged, metric"),
        ({"points": "base"}, "damaged, points"),
        ({"points": ["../../elsewhere"]}, "damaged, points.0"),
        ({"seeds": ["1"]}, "damaged, seeds.0"),
        ({"seeds": 1}, "damaged, seeds"),
        ({"reference": []}, "damaged, reference"),
        ({"evaluate": {}}, "damaged, evaluate"),
    ],
)
def test_a_sweeps_plan_is_as_it_has_to_be(
    change: dict[str, Any], said: str, own_run: Path, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    shutil.copytree(own_run, sweep / "runs" / "base" / "seed-1")
    (sweep / "sweep.json").write_text('{"program": "transformer-cli sweep", "format": 1}')
    (sweep / "plan.json").write_text(json.dumps({**PLAN, **change}))
    assert_refused(limited("report", sweep), 1, f"{sweep / 'plan.json'}: {said}")


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "1" * 5000, "\x00", "{}"])
def test_a_plan_that_is_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(RunError, match=r"plan\.json: damaged"):
        read_sweep_plan(tmp_path)
