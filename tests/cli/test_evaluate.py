import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Training
from cli.process import run, run_anew
from transformer_cli.config.yaml import load_config
from transformer_cli.data.sources import load_split

KEYS = {
    "split",
    "sentences",
    "beam_size",
    "bleu",
    "bleu_lc",
    "chrf",
    "perplexity",
    "signature",
    "signature_lc",
    "signature_chrf",
}


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
    assert values["split"] == "test"
    assert values["sentences"] == 20
    assert values["beam_size"] == 1
    for score in ("bleu", "bleu_lc", "chrf"):
        assert 0.0 <= values[score] <= 100.0
    assert values["perplexity"] > 1.0
    assert "version:" in values["signature"]
    assert "case:mixed" in values["signature"]
    assert "case:lc" in values["signature_lc"]


def test_validation_split_scores_as_in_training(training: Training) -> None:
    lines = (training.run / "metrics.jsonl").read_text().splitlines()
    best = [record for record in map(json.loads, lines) if record.get("best")][-1]
    values = report(training.run, "--split", "val")
    for name in ("bleu", "bleu_lc", "perplexity"):
        assert values[name] == pytest.approx(best[name], rel=1e-6)


def test_table_says_the_same_from_a_new_interpreter(training: Training) -> None:
    values = report(training.run)
    finished = run_anew("evaluate", training.run, cwd=training.run)
    assert finished.code == 0
    assert finished.err == ""
    heading, *rows = finished.out.splitlines()
    assert heading == "test: 20 sentences, greedy"
    shown = {" ".join(row[:16].split()): row[16:].split() for row in rows}
    assert shown["BLEU"] == [f"{values['bleu']:.2f}", values["signature"]]
    assert shown["BLEU lowercased"] == [f"{values['bleu_lc']:.2f}", values["signature_lc"]]
    assert shown["chrF"] == [f"{values['chrf']:.2f}", values["signature_chrf"]]
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
