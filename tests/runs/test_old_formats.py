"""Checkpoints of every format that there has been load, translate and train on, for ever."""

import json
import math
import shutil
from pathlib import Path

import pytest
from cli.process import run, run_ranks

from transformer_cli.runs.checkpoint import FORMAT, MANIFEST

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMATS = range(1, FORMAT + 1)
LINES = ["1 2 3 4", "4 3 1 2", "2 2 1 1"]


def best_loss(run_dir: Path) -> float:
    newest = max(run_dir.glob("checkpoints/*/state.json"))
    return float(json.loads(newest.read_text())["best_loss"])


@pytest.fixture(params=FORMATS)
def old_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run with a checkpoint of one of the formats."""
    copied = shutil.copytree(FIXTURES / f"format-{request.param}", tmp_path / "run")
    (manifest,) = copied.glob(f"checkpoints/*/{MANIFEST}")
    assert json.loads(manifest.read_text())["format"] == request.param
    return copied


def test_an_old_run_translates(old_run: Path) -> None:
    text = "".join(f"{line}\n" for line in LINES)
    finished = run("translate", old_run, stdin=text.encode())
    assert (finished.code, finished.out) == (0, text), finished.err
    assert not (old_run / "run.json").exists()


def test_an_old_run_scores_as_it_did(old_run: Path) -> None:
    finished = run("evaluate", old_run, "--split", "val", "--json")
    assert finished.code == 0, finished.err
    said = json.loads(finished.out)
    assert said["scores"]["bleu"]["value"] == pytest.approx(100.0)
    assert said["perplexity"] == pytest.approx(math.exp(best_loss(old_run)), rel=1e-4)


def test_an_old_runs_steps_stay_what_they_were(old_run: Path) -> None:
    longer = "--set=training.epochs=61"
    command: list[str | Path] = ["train", old_run / "config.yaml", "--run-dir", old_run, longer]
    more = run(*command, "--set", "training.accumulate=2")
    assert more.code == 2
    assert "training.accumulate" in more.err
    two = run_ranks(2, *command)
    assert two[0].code == 2
    assert "was trained with 1" in two[0].err


def test_an_old_run_trains_on(old_run: Path) -> None:
    loss = best_loss(old_run)
    finished = run(
        "train", old_run / "config.yaml", "--run-dir", old_run, "--set", "training.epochs=61"
    )
    assert finished.code == 0, finished.err
    assert "resuming from step 480\n" in finished.err
    newest = max((old_run / "checkpoints").glob("step-*"))
    assert newest.name == "step-00000488"
    assert json.loads((newest / MANIFEST).read_text())["format"] == FORMAT
    assert best_loss(old_run) < 1.2 * loss
    assert json.loads((old_run / "run.json").read_text())["format"] == 1
