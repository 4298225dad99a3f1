import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.conftest import Training
from cli.process import assert_refused, run
from transformer_cli.config.choices import METRICS
from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import load_split
from transformer_cli.evaluation import scoring

KEYS = {
    "split",
    "sentences",
    "checkpoint",
    "step",
    "beam_size",
    "scores",
    "perplexity",
    "engine",
    "environment",
}


OTHER = Path(__file__).parents[1] / "fixtures" / "copy-run"


def report(*arguments: str | Path) -> dict[str, Any]:
    finished = run("evaluate", *arguments, "--json")
    assert finished.code == 0
    assert finished.err == ""
    assert finished.out.count("\n") == 1
    values = json.loads(finished.out)
    assert isinstance(values, dict)
    return values


def test_json_is_one_object(training: Training) -> None:
    values = report(training.run)
    assert values.keys() == KEYS
    environment = values["environment"]
    assert (environment["device"], environment["precision"]) == ("cpu", "float32")
    assert (environment["processes"], environment["torch"]) == (1, torch.__version__)
    assert values["split"] == "test"
    assert values["sentences"] == 20
    assert values["beam_size"] == 1
    scores = values["scores"]
    assert list(scores) == ["bleu", "bleu_lc", "chrf", "ter"]
    for score in scores.values():
        assert 0.0 <= score["value"] <= 100.0
        assert 0.0 < score["half_width"] < 50.0
    assert values["perplexity"] > 1.0
    assert "version:" in scores["bleu"]["signature"]
    assert "case:mixed" in scores["bleu"]["signature"]
    assert "case:lc" in scores["bleu_lc"]["signature"]
    assert "bs:1000|seed:12345" in scores["ter"]["signature"]


def test_the_checkpoint_is_named(training: Training) -> None:
    for which, step in (("last", 60), ("best", report(training.run)["step"])):
        values = report(training.run, "--checkpoint", which)
        assert values["step"] == step
        assert values["checkpoint"] == str(
            training.run / "checkpoints" / f"step-{values['step']:08}"
        )


def test_validation_split_scores_as_in_training(training: Training) -> None:
    lines = (training.run / "metrics.jsonl").read_text().splitlines()
    best = [record for record in map(json.loads, lines) if record.get("best")][-1]
    values = report(training.run, "--split", "val")
    assert values["perplexity"] == pytest.approx(best["perplexity"], rel=1e-6)
    for name in ("bleu", "bleu_lc", "chrf"):
        assert values["scores"][name]["value"] == pytest.approx(best[name], rel=1e-6)


def test_table_says_the_same(training: Training) -> None:
    values = report(training.run)
    finished = run("evaluate", training.run)
    assert finished.code == 0
    assert finished.err == ""
    heading, *rows = finished.out.splitlines()
    assert heading == f"test: 20 sentences, greedy, step {values['step']}"
    shown = {" ".join(row[:16].split()): row[16:].split() for row in rows}
    for name, score in values["scores"].items():
        assert " ".join(shown[METRICS[name].label]).replace("±", "± ").split() == [
            f"{score['value']:.2f}",
            "±",
            f"{score['half_width']:.2f}",
            score["signature"],
        ]
    assert shown["perplexity"][0] == f"{values['perplexity']:.2f}"


def test_files_score_as_a_split_of_the_same_text(training: Training, tmp_path: Path) -> None:
    text = load_split(load_config(training.config).data, "test")
    src, ref = tmp_path / "text.src", tmp_path / "text.ref"
    src.write_text("\n".join(text.src) + "\n")
    ref.write_text("\n".join(text.tgt) + "\n")
    of_files = report(training.run, "--src", src, "--ref", ref)
    assert of_files.pop("split") == str(src)
    of_split = report(training.run)
    of_split.pop("split")
    assert of_files == of_split


def test_output_is_what_translate_writes(training: Training, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    report(training.run, "-o", output, "--beam-size", "2")
    text = load_split(load_config(training.config).data, "test")
    stdin = "".join(f"{line}\n" for line in text.src).encode()
    translated = run("translate", training.run, "--beam-size", "2", stdin=stdin)
    assert output.read_text() == translated.out
    assert output.read_text().count("\n") == 20


def test_checkpoint_by_name_and_by_path(training: Training) -> None:
    last = training.run / "checkpoints" / "step-00000060"
    before_last = training.run / "checkpoints" / "step-00000050"
    assert report(training.run, "--checkpoint", last) == report(
        training.run, "--checkpoint", "last"
    )
    perplexities = {
        report(training.run, "--checkpoint", path)["perplexity"] for path in (last, before_last)
    }
    assert len(perplexities) == 2


def test_beam_size_is_obeyed(training: Training) -> None:
    assert report(training.run, "--beam-size", "3")["beam_size"] == 3


def test_a_score_costs_no_input(training: Training, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("s1 s2\n")
    arguments = ("--src", text, "--ref", text, "-o", text)
    refused = run("evaluate", training.run, *arguments)
    assert_refused(refused, 2, f"-o {text}: is the file that --src reads")
    assert text.read_text() == "s1 s2\n"


def test_a_place_that_cannot_be_written_is_said_before_the_work(
    training: Training, tmp_path: Path
) -> None:
    output = tmp_path / "out.txt"
    refused = run("evaluate", training.run, "-o", output, before=_with_a_read_only_disk)
    assert_refused(refused, 2, f"-o {output}: its directory is not writable")
    assert list(tmp_path.iterdir()) == []


def _with_a_read_only_disk() -> None:
    def too_late(*_: object, **__: object) -> None:
        raise AssertionError("scored first")

    os.access = lambda _, mode, **__: mode != os.W_OK
    scoring.evaluate = too_late  # type: ignore[assignment]
