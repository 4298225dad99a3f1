"""Damaged marks of sweeps."""

import json
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from cli.process import Finished, assert_refused, run

from transformer_cli.base.errors import RunError
from transformer_cli.extensions.experiments.sweep import SweepDirectory

SECONDS, BYTES = 300, 16 * 2**30


"""The most that a command may take here; each takes a small part."""


def limited(*arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"1 2 3\n") -> Finished:
    return run(*arguments, cwd=cwd, stdin=stdin, before=_limit)


def _limit() -> None:
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


PLAN: dict[str, Any] = {
    "program": "transformer-cli sweep",
    "format": 1,
    "points": ["base"],
    "seeds": [1],
    "reference": "base",
}


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "change",
    [
        {"points": "base"},
        {"points": ["../../elsewhere"]},
        {"seeds": ["1"]},
        {"seeds": 1},
        {"reference": []},
        {"program": "another"},
    ],
)
def test_a_sweeps_mark_is_as_it_has_to_be(
    change: dict[str, Any], own_run: Path, tmp_path: Path
) -> None:
    sweep = tmp_path / "sweep"
    shutil.copytree(own_run, sweep / "runs" / "base" / "seed-1")
    (sweep / "sweep.json").write_text(json.dumps({**PLAN, **change}))
    assert_refused(limited("compare", sweep), 1, f"{sweep / 'sweep.json'}: damaged")


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "1" * 5000, "\x00", "{}"])
def test_an_invalid_mark(text: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(RunError, match=r"sweep\.json: damaged, or not from a sweep"):
        SweepDirectory(tmp_path).find_finished()
