"""The command ``runs``."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.runs.directory import RunDirectory, lock_run
from transformer_cli.runs.metrics_log import read_records


def listed(*paths: Path) -> list[dict[str, Any]]:
    finished = run("runs", *paths, "--json")
    assert finished.code == 0, finished.err
    found: list[dict[str, Any]] = json.loads(finished.out)
    return found


def test_a_run_is_summarized(training: Training) -> None:
    (found,) = listed(training.run)
    scores = [
        each["bleu"] for each in read_records(training.run / "metrics.jsonl") if "bleu" in each
    ]
    assert found["state"] == "finished"
    assert (found["steps"], found["epochs"]) == (60, 12)
    assert (found["metric"], found["score"]) == ("bleu", max(scores))
    assert f"{found['parameters']:,}" in training.finished.err
    assert found["bytes"] == sum(each.stat().st_size for each in training.run.rglob("*"))


def test_directories_are_searched(own_run: Path, config: Path) -> None:
    prepared = own_run.parent / "sweep" / "prepared"
    assert run("vocab", config, "--run-dir", prepared).code == 0
    found = {each["run"]: each for each in listed(own_run.parent)}
    assert list(found) == [own_run.as_posix(), prepared.as_posix()]
    assert found[prepared.as_posix()]["state"] == "prepared"
    table = run("runs", own_run.parent).out.splitlines()
    assert [line.split()[0] for line in table] == ["run", *found]


def test_a_run_with_steps_left_is_stopped_or_in_use(own_run: Path) -> None:
    settings = own_run / "config.yaml"
    settings.write_text(settings.read_text().replace("epochs: 12", "epochs: 13"))
    (found,) = listed(own_run)
    assert found["state"] == "stopped"
    with lock_run(RunDirectory(own_run)):
        (found,) = listed(own_run)
    assert found["state"] == "in use"


@pytest.mark.parametrize("name", ["run.json", "config.yaml", "checkpoints/*/state.json"])
def test_a_damaged_run_is_listed_with_the_reason(
    training: Training, own_run: Path, name: str
) -> None:
    for path in own_run.glob(name):
        path.write_text("{")
    finished = run("runs", own_run, training.run)
    assert finished.code == 0
    assert [line.split()[1] for line in finished.out.splitlines()] == [
        "state",
        "damaged",
        "finished",
    ]
    assert finished.err.count("\n") == 1
    assert finished.err.startswith(f"warning: {own_run}: ")


def test_a_damaged_model_has_no_size(own_run: Path) -> None:
    for path in own_run.glob("checkpoints/*/model.safetensors"):
        path.write_bytes(b"damaged")
    (found,) = listed(own_run)
    assert (found["state"], found["parameters"]) == ("finished", None)


def test_without_runs_it_says_so(tmp_path: Path) -> None:
    assert_refused(run("runs", tmp_path), 1, "has no runs; make one with: transformer-cli train")
    assert_refused(run("runs", tmp_path / "none"), 1, "no such directory")
