import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.config.choices import METRICS
from transformer_cli.extensions.experiments.command_compare import format_reports
from transformer_cli.extensions.experiments.seed_statistics import TRAIN_LONGER

KEYS = {
    "split",
    "sentences",
    "checkpoint",
    "samples",
    "seed",
    "runs",
    "rest",
    "settings",
    "environment",
}
RUN_KEYS = {
    "name",
    "path",
    "seed",
    "beam_size",
    "scores",
    "seen",
    "step",
    "steps",
    "seconds",
}


@pytest.fixture
def other(training: Training, tmp_path: Path) -> Path:
    """A copy of the trained run with the same weights, whose config has another seed and beam."""
    path = shutil.copytree(training.run, tmp_path / "other")
    change(path, "seed: 1", "seed: 2")
    change(path, "beam_size: 1", "beam_size: 3")
    return path


def change(path: Path, old: str, new: str) -> None:
    settings = path / "config.yaml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))


def report(*arguments: str | Path) -> dict[str, Any]:
    finished = run("compare", *arguments, "--json")
    assert finished.err == ""
    assert finished.code == 0
    assert finished.out.count("\n") == 1
    values = json.loads(finished.out)
    assert isinstance(values, dict)
    return values


def test_json_is_one_object_with_evaluates_scores(training: Training, other: Path) -> None:
    values = report(training.run, other)
    assert values.keys() == KEYS
    assert (values["split"], values["sentences"], values["checkpoint"]) == ("test", 20, "best")
    assert (values["samples"], values["seed"]) == (1000, 12345)
    signatures = {key: each["signature"] for key, each in values["runs"][0]["scores"].items()}
    assert {"bs:1000", "seed:12345", "case:mixed"} <= set(signatures["bleu"].split("|"))
    assert {"bs:1000", "seed:12345", "case:lc"} <= set(signatures["bleu_lc"].split("|"))
    assert values["settings"] == {"seed": [1, 2], "decoding.beam_size": [1, 3]}
    assert [each["name"] for each in values["runs"]] == ["tiny", "other"]
    for path, beam_size, found in zip((training.run, other), (1, 3), values["runs"], strict=True):
        assert found.keys() == RUN_KEYS
        assert found["path"] == str(path)
        assert found["beam_size"] == beam_size
        evaluated = json.loads(run("evaluate", path, "--json").out)
        assert list(found["scores"]) == ["bleu", "bleu_lc", "chrf"]
        for key, score in found["scores"].items():
            assert score["value"] == evaluated["scores"][key]["value"]
        # ``compare`` has no interval for chrF.
        resampled = evaluated["scores"]["chrf"]["signature"].replace("bs:1000|seed:12345|", "")
        assert resampled == found["scores"]["chrf"]["signature"]


def test_a_copy_is_no_different_and_the_table_says_what_json_says(
    training: Training, own_run: Path
) -> None:
    values = report(training.run, own_run)
    first, copy = values["runs"]
    for found, p_value in ((first, None), (copy, 1.0)):
        tested = [found["scores"][name]["p_value"] for name in ("bleu", "bleu_lc", "chrf")]
        assert tested == [p_value, p_value, None]
    assert values["settings"] == {}
    finished = run("compare", training.run, own_run, cwd=own_run)
    assert (finished.code, finished.err) == (0, "")
    lines = finished.out.splitlines()
    assert lines[0] == "test: 20 sentences, best weights"
    heads = ("run", "BLEU", "p", "BLEU lowercased", "p", "chrF", "step", "steps", "seconds")
    assert lines[2].split() == " ".join(heads).split()
    first_row, copy_row = (line.split() for line in lines[3:5])
    for row, found in ((first_row, first), (copy_row, copy)):
        assert row[0] == found["name"]
        bleu = found["scores"]["bleu"]
        assert row[1] == f"{bleu['value']:.2f}"
        assert float(row[2].strip("±") or row[3]) == round(bleu["half_width"], 2)
        assert row[-4:] == [
            f"{found['scores']['chrf']['value']:.2f}",
            f"{found['step']:,}",
            f"{found['steps']:,}",
            f"{found['seconds']:,.0f}",
        ]
    assert first_row.count("-") == 2
    assert copy_row.count("1.000") == 2
    assert "all settings are equal" in lines
    assert TRAIN_LONGER not in lines
    for found in values["runs"]:
        found["scores"]["bleu"]["value"] = 0.01
    assert TRAIN_LONGER in format_reports([values], "runs").splitlines()
    for name, score in first["scores"].items():
        assert f"{METRICS[name].label:<15}  {score['signature']}" in lines


def test_settings_that_differ_stand_in_a_table(training: Training, other: Path) -> None:
    change(other, "train.src", "fewer.src")
    long_way = other.with_name("of_a_rather_long_name")
    shutil.copytree(training.run, long_way)
    last = shutil.copytree(training.run, other.with_name("another_long_name"))
    out = run("compare", training.run, other, long_way, last, "--beam-size", "2").out
    lines = out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("setting"))
    table = lines[first:]
    assert table[0].split() == ["setting", "tiny", "other", long_way.name, last.name]
    # All searches used the requested beam.
    assert table[1].split() == ["seed", "1", "2", "1", "1"]
    assert table[2].split()[0] == "data.train.src"
    assert table[3] == ""
    assert max(map(len, table)) <= 100


def test_steps_and_time_are_the_checkpoints(training: Training, own_run: Path) -> None:
    shutil.rmtree(own_run / "checkpoints" / "step-00000060")
    values = report(training.run, own_run, "--checkpoint", "last")
    assert values["checkpoint"] == "last"
    for path, step, found in zip((training.run, own_run), (60, 50), values["runs"], strict=True):
        state = path / "checkpoints" / f"step-{step:08d}" / "state.json"
        assert (found["step"], found["steps"]) == (step, step)
        assert found["seconds"] == json.loads(state.read_text())["content"]["seconds"]


def test_the_best_weights_may_not_be_the_last(training: Training, own_run: Path) -> None:
    values = report(training.run, own_run)
    state = json.loads((own_run / "checkpoints" / "step-00000060" / "state.json").read_text())[
        "content"
    ]
    for found in values["runs"]:
        assert (found["step"], found["steps"]) == (state["best_step"], 60)


def test_averages_compare(own_run: Path) -> None:
    again = shutil.copytree(own_run, own_run.with_name("again"))
    for path in (own_run, again):
        assert run("average", path, "--last", "2").code == 0
    _, found = report(own_run, again, "--checkpoint", "average")["runs"]
    assert (found["scores"]["bleu"]["p_value"], found["step"], found["steps"]) == (1.0, 60, 60)


def test_runs_of_one_name_are_told_apart(training: Training, tmp_path: Path) -> None:
    namesake = shutil.copytree(training.run, tmp_path / "old" / "tiny")
    values = report(namesake, training.run, "--split", "val")
    assert [each["name"] for each in values["runs"]] == ["old/tiny", "runs/tiny"]
    assert values["split"] == "val"


@pytest.mark.parametrize(
    ("options", "code", "fragments"),
    [
        ([], 2, ["is a single run", "transformer-cli evaluate "]),
        (["none"], 2, ["none: not a run directory"]),
        (["{}/"], 2, ["is named twice"]),
        (["{}/../run"], 2, ["is named twice"]),
        (["{other}", "--split", "tset"], 2, ["run: ", "no split 'tset'; did you mean 'test'?"]),
        (
            ["{other}", "--checkpoint", "step-7"],
            2,
            ["'--checkpoint'", "'step-7'", "'average'"],
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    own_run: Path, other: Path, options: Sequence[str], code: int, fragments: Sequence[str]
) -> None:
    filled = [option.format(own_run, other=other) for option in options]
    assert_refused(run("compare", own_run, *filled), code, *fragments)


@pytest.mark.long
def test_each_text_has_a_table_by_the_run_that_has_it(own_run: Path, other: Path) -> None:
    change(other, "test.src", "val.src")
    change(other, "test.tgt", "val.tgt")  # so each has a test of its own
    splits = [f"{own_run}:test", f"{other}:test"]
    options = ("--split", splits[0], "--split", splits[1], "--beam-size", "1")
    values = report(own_run, other, *options)
    assert values.keys() == {"splits"}
    for split, found in zip(splits, values["splits"], strict=True):
        # The result of one text alone.
        assert found == report(own_run, other, "--split", split, "--beam-size", "1")
        assert found.keys() == KEYS
        assert found["split"] == split
    old, new = (
        [run["scores"]["bleu"]["value"] for run in found["runs"]] for found in values["splits"]
    )
    assert old[0] == old[1] != new[0]
    lines = run("compare", own_run, other, *options).out.splitlines()
    for split in splits:
        assert lines.count(f"{split}: 20 sentences, best weights") == 1
    assert sum(line.startswith("±: ") for line in lines) == 1
    assert sum(line.split()[:1] == ["other"] for line in lines) == 2


def test_another_text_is_refused(own_run: Path, other: Path) -> None:
    change(other, "test.src", "val.src")
    change(other, "test.tgt", "val.tgt")
    refused = run("compare", own_run, other)
    assert_refused(refused, 2, f"{own_run} and {other}: split 'test' is not the same in both")


def test_a_damaged_run_is_refused(own_run: Path, other: Path) -> None:
    for weights in other.glob("checkpoints/*/model.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-1])
    assert_refused(run("compare", own_run, other), 1, str(other), "damaged")


def test_a_run_that_is_not_trained(own_run: Path, other: Path) -> None:
    shutil.rmtree(other / "checkpoints")
    refused = run("compare", own_run, other)
    assert_refused(refused, 1, str(other), "train first: transformer-cli train CONFIG\n")
    refused = run("compare", own_run.parent)  # a directory of both
    assert_refused(
        refused, 1, f"{other}/checkpoints: no checkpoint yet", "name the ones to compare"
    )
