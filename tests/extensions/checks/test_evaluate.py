"""Scores by the nearest training pair."""

from pathlib import Path

from cli.conftest import Training
from cli.process import run
from cli.test_evaluate import report

from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import load_split


def test_near_gives_scores_by_the_nearest_training_pair(training: Training, tmp_path: Path) -> None:
    bands = report(training.run, "--near")["near"]["bands"]
    assert [band["from"] for band in bands] == [0, 0.5, 0.6, 0.7, 0.8]
    assert [band["to"] for band in bands] == [0.5, 0.6, 0.7, 0.8, 1]
    assert sum(band["sentences"] for band in bands) == 20
    known = load_split(load_config(training.config).data, "train").src[:7]
    for name, lines in (("src", known), ("ref", ["nothing like it", *known[1:]])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    finished = run(
        "evaluate", training.run, "--near", "--src", tmp_path / "src", "--ref", tmp_path / "ref"
    )
    _, _, table = finished.out.partition("by similarity to the nearest training pair:\n")
    rows = [line.split()[:4] for line in table.splitlines()]
    assert sum(int(row[3]) for row in rows) == 7
    assert rows[-1] == ["0.8", "to", "1.0", "6"]
