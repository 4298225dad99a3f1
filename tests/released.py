"""Runs that a release has written, and what it translated and scored."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli import process


def copy_run(fixtures: Path, name: str, directory: Path) -> Path:
    """Copy a run or an exported model of the fixtures into a directory; return the copy."""
    return shutil.copytree(fixtures / name, directory / name)


def read_expected(fixtures: Path, kind: str) -> dict[str, Any]:
    """Return what a kind of run translated and scored."""
    expected: dict[str, Any] = json.loads((fixtures / "expected.json").read_text("utf-8"))[kind]
    return expected


def check_translations(model: Path, fixtures: Path, kind: str) -> None:
    """Check that a run, or what was exported from it, translates as the release did."""
    lines = read_expected(fixtures, kind)["translations"]
    stdin = "".join(f"{line}\n" for line in lines).encode()
    finished = process.run("translate", model, stdin=stdin)
    assert finished.code == 0, finished.err
    assert finished.out.splitlines() == list(lines.values())


def check_score_and_train_on(run: Path, fixtures: Path, kind: str) -> None:
    """Check that a run has the release's score, and can be trained further."""
    finished = process.run("evaluate", run, "--split", "val", "--json", cwd=run.parent)
    assert finished.code == 0, finished.err
    scored, expected = json.loads(finished.out), read_expected(fixtures, kind)
    assert scored["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-3)
    # A rounding may turn the search where the model is in doubt.
    assert scored["scores"]["bleu"]["value"] == pytest.approx(expected["bleu"], abs=3.0)
    step = scored["step"] + 2
    more = ("--set", "training.epochs=20", "--set", f"training.max_steps={step}")
    config = fixtures / f"{kind}.yaml"
    finished = process.run("train", config, "--run-dir", run, *more, cwd=run.parent)
    assert finished.code == 0, finished.err
    assert (run / "checkpoints" / f"step-{step:08}").is_dir()
