"""Models and records that a stranger has made, with right sums: refused in one line, soon."""

import json
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Training
from cli.process import Finished, assert_refused, run
from installed import has_command, has_engine
from safetensors.torch import load_file, save_file

from faults.test_hostile import make_sums_match
from transformer_cli.runs.checkpoint import Checkpoint
from transformer_cli.runs.metrics_log import read_records

SECONDS, BYTES = 300, 16 * 2**30


"""The most that a command may take here; each takes a small part."""


def limited(*arguments: str | Path, cwd: Path | None = None, stdin: bytes = b"1 2 3\n") -> Finished:
    return run(*arguments, cwd=cwd, stdin=stdin, before=_limit)


def _limit() -> None:
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def change_weights(run_directory: Path, value: float) -> None:
    for path in (run_directory / "checkpoints").glob("*/model.safetensors"):
        weights = load_file(path)
        name = sorted(weights)[-1]
        weights[name].view(-1)[0] = value
        save_file(weights, path)
    make_sums_match(run_directory)


@pytest.mark.long_cases
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(
    value: float, own_run: Path, config: Path, tmp_path: Path
) -> None:
    change_weights(own_run, value)
    commands: list[list[str | Path]] = [
        ["translate", own_run],
        ["translate", own_run, "--engine", "ctranslate2"],
        ["evaluate", own_run],
        ["export", own_run, tmp_path / "exported", "--format", "ctranslate2"],
        ["average", own_run],
        ["attention", own_run, "1 2 3", "-o", tmp_path / "picture.png"],
        ["train", config, "--run-dir", own_run, "--set", "training.epochs=13"],
        ["train", config, "--run-dir", tmp_path / "heir", "--set", f"init={own_run}"],
    ]
    commands = [each for each in commands if has_command(str(each[0]))]
    if not has_engine("ctranslate2"):
        commands.remove(commands[1])
    for command in commands[: None if value != value else 2]:
        refused = limited(*command)
        said = [line for line in refused.err.splitlines() if "error" in line]
        assert refused.code == 1
        assert len(said) == 1
        assert "has values that are infinite or not a number; use another checkpoint" in said[0]
        assert refused.out == ""


def test_finite_weights_whose_sum_is_not_are_weights(own_run: Path) -> None:
    path = own_run / "checkpoints" / "step-00000060"
    weights = load_file(path / "model.safetensors")
    name = next(name for name, each in weights.items() if each.dim() == 2)
    weights[name] = torch.full_like(weights[name], 3e38)
    save_file(weights, path / "model.safetensors")
    make_sums_match(own_run)
    assert torch.equal(Checkpoint.open(path).load_weights()[name], weights[name])


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("key", "value", "most"),
    [
        ("decoding.beam_size", 5000, "1000"),
        ("decoding.beam_size", 10**9, "1000"),
        ("decoding.batch_tokens", 2**31 - 1, "1048576"),
        ("decoding.max_length_ratio", 1000, "100"),
    ],
)
def test_a_number_that_would_fill_the_memory_is_named(
    key: str, value: int, most: str, own_run: Path
) -> None:
    settings = own_run / "config.yaml"
    name = key.rpartition(".")[2]
    lines = settings.read_text().splitlines()
    section = lines.index(f"{key.partition('.')[0]}:")
    place = next(n for n in range(section, len(lines)) if lines[n].startswith(f"  {name}:"))
    lines[place] = f"  {name}: {value}"
    settings.write_text("\n".join(lines) + "\n")
    said = f"{settings}:{place + 1}: {key}: expected at most {most}"
    assert_refused(limited("translate", own_run), 2, said)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--beam-size", "--beam-size 1,000,000,000 is too large; use at most 1,000"),
        ("--batch-tokens", "--batch-tokens 1,000,000,000 is too large; use at most 1,048,576"),
    ],
)
def test_options_have_the_same_bounds(option: str, said: str, training: Training) -> None:
    assert_refused(limited("translate", training.run, option, "1000000000"), 2, said)


@pytest.mark.parametrize("form", ["keys", "list"])
def test_keys_without_number_are_refused_soon(form: str, own_run: Path) -> None:
    settings = own_run / "config.yaml"
    keys = (f"k{number}: 1\n" for number in range(60_000))
    more = "".join(keys) if form == "keys" else f"more: [{'1, ' * 300_000}]\n"
    settings.write_text(settings.read_text() + more)
    assert_refused(limited("translate", own_run), 2, "more than 20,000 keys and values")


def test_records_of_other_types_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = {"kind": "validation", "step": 5, "loss": 1.0}
    steps: list[Any] = [10**400, -1, "5", [], None]
    kinds: list[Any] = [1, [], {}, None]
    strange = [{**good, "step": each} for each in steps]
    strange += [{**good, "kind": each} for each in kinds]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [*strange, good, *strange]))
    assert read_records(path) == [good]
