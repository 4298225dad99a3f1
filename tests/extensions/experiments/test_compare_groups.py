"""``compare`` with groups of runs; test_comparison.py tests the computations."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.extensions.experiments.job import FORMAT

LAST = ("--checkpoint", "last")


@pytest.fixture
def runs(training: Training, tmp_path: Path) -> Path:
    """Directories a and b with seeds 1 to 3 each: a has the best weights, b the ones of step 50."""
    for group, kept in (("a", 60), ("b", 50)):
        for seed in (1, 2, 3):
            path = shutil.copytree(training.run, tmp_path / "runs" / group / f"seed-{seed}")
            change(path, "seed: 1", f"seed: {seed}")
            if kept == 50:
                change(path, "dropout: 0.1", "dropout: 0.2")
                change(path, "epochs: 12", "epochs: 10")
                shutil.rmtree(path / "checkpoints" / "step-00000060")
    return tmp_path / "runs"


def change(path: Path, old: str, new: str) -> None:
    settings = path / "config.yaml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new, 1))


def report(*arguments: str | Path, cwd: Path) -> dict[str, Any]:
    finished = run("compare", *arguments, *LAST, "--json", cwd=cwd)
    assert (finished.err, finished.code) == ("", 0)
    values = json.loads(finished.out)
    assert isinstance(values, dict)
    return values


SWEEP = {"program": "transformer-cli sweep", "format": FORMAT, "points": ["a", "b"]}
MARK = json.dumps({**SWEEP, "seeds": [1, 2, 3], "reference": "a"})


@pytest.mark.long
def test_directories_patterns_and_a_sweep_name_the_same_groups(runs: Path) -> None:
    by_directory = report("runs/a", "runs/b", cwd=runs.parent)
    by_pattern = report("runs/a/seed-*", "runs/b/*", cwd=runs.parent)
    sweep = runs.parent
    (sweep / "sweep.json").write_text(MARK)
    by_sweep = report(".", cwd=sweep)
    assert [each["name"] for each in by_directory["groups"]] == ["a", "b"]
    assert [each["name"] for each in by_pattern["groups"]] == ["seed-*", "b"]
    assert by_sweep == by_directory
    assert by_directory["settings"] == {
        "model.dropout": [0.1, 0.2],
        "training.epochs": [12, 10],
    }
    for first, second in zip(by_directory["groups"], by_pattern["groups"], strict=True):
        assert {**first, "name": ""} == {**second, "name": ""}
        assert [each["seed"] for each in first["runs"]] == [1, 2, 3]


@pytest.mark.long
def test_the_table_says_what_json_says(runs: Path) -> None:
    values = report("runs/a", "runs/b", cwd=runs.parent)
    first, second = values["groups"]
    evaluated = json.loads(
        run("evaluate", runs / "b" / "seed-2", "--checkpoint", "last", "--json").out
    )
    for metric in ("bleu", "bleu_lc", "chrf"):
        assert second["runs"][1]["scores"][metric] == evaluated["scores"][metric]["value"]
        found, of_first = second["scores"][metric], first["scores"][metric]
        difference = found["difference"]
        assert difference["difference"] == pytest.approx(found["mean"] - of_first["mean"])
        assert difference["p_holm"] == difference["p_value"]
        assert of_first["difference"] is None
    lines = run(
        "compare", "runs/a", "runs/b", "--checkpoint", "last", cwd=runs.parent
    ).out.splitlines()
    assert lines[0] == "test: 20 sentences, last weights"
    heads = "BLEU seeds mean 95 % interval difference p"
    assert lines[2].split() == heads.split()
    found = second["scores"]["bleu"]
    cells = lines[4].replace("±", " ").split()
    assert cells[:2] == ["b", "3"]
    assert cells[2] == f"{found['mean']:.2f}"
    assert f"{found['difference']['difference']:+.2f}" in cells
    assert f"{found['difference']['p_value']:.3f}" in cells
    assert any(line.split() == ["model.dropout", "0.1", "0.2"] for line in lines)
    assert max(map(len, lines)) <= 100


def test_several_groups_and_a_single_run_are_compared_with_the_first(runs: Path) -> None:
    arguments = ("runs/a", "runs/b", "runs/b/../../single", "--checkpoint", "last")
    single = shutil.copytree(runs / "a" / "seed-1", runs.parent / "single")
    change(single, "seed: 1", "seed: 9")
    finished = run("compare", *arguments, cwd=runs.parent)
    assert (finished.code, finished.err) == (0, "")
    lines = finished.out.splitlines()
    assert "Holm" in lines[2].split()
    name, seeds, *_ = lines[5].split()
    assert (name, seeds) == ("single", "1")
    difference, *rest = lines[5].split()[-3:]
    assert (float(difference), rest) == (0.0, ["-", "-"])


def test_a_group_alone_has_mean_and_deviation(runs: Path) -> None:
    lines = run("compare", "runs/a", cwd=runs.parent).out.splitlines()
    assert lines[2].split() == ["BLEU", "seeds", "mean", "95", "%", "interval"]
    assert "all settings are equal" in lines


@pytest.mark.parametrize(
    ("changes", "code", "fragments"),
    [
        (("seed: 2", "seed: 1"), 2, ["seed-1 and", "seed-2: both have seed 1"]),
        (("d_ff: 32", "d_ff: 64"), 2, ["seed-1 and", "model.d_ff is 32 and 64", "only in"]),
        (("epochs: 12", "epochs: 13"), 2, ["training.epochs is 12 and 13"]),
    ],
)
def test_an_invalid_group_is_refused(
    runs: Path, changes: tuple[str, str], code: int, fragments: Sequence[str]
) -> None:
    change(runs / "a" / "seed-2", *changes)
    refused = run("compare", "runs/a", "runs/b", *LAST, cwd=runs.parent)
    assert_refused(refused, code, *fragments)


def test_missing_or_unfinished_runs_are_refused(runs: Path) -> None:
    for path in (runs / "b").iterdir():
        change(path, "epochs: 10", "epochs: 11")
    refused = run("compare", "runs/a", "runs/b", *LAST, cwd=runs.parent)
    assert_refused(refused, 1, "seed-1: its training has not finished (step 50)")
    refused = run("compare", "runs/a", "runs/c-*", cwd=runs.parent)
    assert_refused(refused, 2, "runs/c-*: no directory matches this pattern")
    refused = run("compare", "runs/c", cwd=runs.parent)
    assert_refused(refused, 2, "runs/c: not a run directory: it does not exist")
    (runs / "sweep.json").write_text("{}\n")
    refused = run("compare", "runs", cwd=runs.parent)
    assert_refused(refused, 1, "sweep.json: damaged, or not from a sweep; run the sweep's command")
    (runs / "sweep.json").write_text(MARK)
    assert_refused(run("compare", "runs", cwd=runs.parent), 1, "runs: this sweep has no finished")
    shutil.rmtree(runs / "a" / "seed-1" / "checkpoints")
    refused = run("compare", "runs/a", "runs/b", *LAST, cwd=runs.parent)
    assert_refused(refused, 1, "seed-1", "no checkpoint yet")


@pytest.mark.long
def test_groups_have_their_tables_of_each_text(runs: Path) -> None:
    names = ("runs/a", "runs/b")
    splits = ("--split", "test", "--split", "runs/a/seed-1:val")
    found = report(*names, *splits, cwd=runs.parent)["splits"]
    assert found[0] == report(*names, "--split", "test", cwd=runs.parent)
    assert [each["split"] for each in found] == ["test", "runs/a/seed-1:val"]
    lines = run("compare", *names, *splits, *LAST, cwd=runs.parent).out.splitlines()
    assert [line.split()[:2] for line in lines if "seeds" in line][:6:3] == [["BLEU", "seeds"]] * 2
    assert sum(line.startswith("mean: ") for line in lines) == 1
