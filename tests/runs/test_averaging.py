"""An average is the mean of the checkpoints it names; checkpoints that do not fit are rejected."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from transformer_cli.base.errors import CheckpointError, UsageError
from transformer_cli.cli.average import average_run, mean_weights
from transformer_cli.config.schema import TrainingConfig
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.runs.checkpoint import (
    Checkpoint,
    find_checkpoint,
    list_checkpoints,
    prune_checkpoints,
    save_checkpoint,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import fingerprint

Weights = dict[str, Tensor]


def a_run(directory: Path, *checkpoints: Weights) -> Path:
    """Return a run directory with these checkpoints, at the steps 10, 20, …"""
    settings = directory.parent / f"{directory.name}.yaml"
    settings.write_text("data: {kind: toy}\ntokenizer: {kind: words}\n")
    run = RunDirectory(directory)
    run.tokenizer.mkdir(parents=True)
    run.checkpoints.mkdir()
    run.config.write_text(dump_config(load_config(settings)))
    tokenizer = {
        "kind": "sentencepiece",
        "lowercase": False,
        "learned_from": "1",
        "sha256": {"joint.model": "0"},
    }
    (run.tokenizer / "tokenizer.json").write_text(json.dumps(tokenizer))
    for number, weights in enumerate(checkpoints, start=1):
        state = {"step": 10 * number, "epoch": number, "seconds": 1.5, "best_step": 10}
        save_checkpoint(run.checkpoints, weights, {}, state, fingerprint(run.tokenizer))
    return directory


def weights(*values: float) -> Weights:
    return {"a": torch.tensor(values), "b": torch.full((2, 2), values[0])}


def load(path: Path, run: Path) -> Weights:
    return Checkpoint.open(path, fingerprint(RunDirectory(run).tokenizer)).load_weights()


def test_it_is_the_mean_of_the_newest(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", weights(100.0, 0.0), weights(1.0, 2.0), weights(2.0, 5.0))
    path, averaged = average_run(RunDirectory(run), last=2)
    assert [each.name for each in averaged] == ["step-00000020", "step-00000030"]
    average = load(path, run)
    assert average["a"].tolist() == [1.5, 3.5]
    assert average["b"].tolist() == [[1.5, 1.5], [1.5, 1.5]]
    state = Checkpoint.open(path, fingerprint(RunDirectory(run).tokenizer)).load_state()
    assert state.step == 30
    assert state.averaged == [str(each) for each in averaged]


def test_sums_are_made_in_double_and_given_in_the_weights_type(tmp_path: Path) -> None:
    # In float32 the ones would be lost beside 2^25.
    values = [{"a": torch.tensor([value], dtype=torch.float32)} for value in (2.0**25, 1.0, 1.0)]
    run = a_run(tmp_path / "run", *values, {"a": torch.tensor([2.0])})
    path, _ = average_run(RunDirectory(run), last=4)
    average = load(path, run)["a"]
    assert average.dtype == torch.float32
    assert average.item() == torch.tensor((2.0**25 + 4.0) / 4.0).item()


def test_it_stands_beside_the_checkpoints_and_replaces_an_older_one(tmp_path: Path) -> None:
    run = RunDirectory(a_run(tmp_path / "run", *(weights(float(n)) for n in range(4))))
    before = list_checkpoints(run.checkpoints)
    first, _ = average_run(run, last=2)
    second, _ = average_run(run, last=4)
    assert first == second == find_checkpoint(run.checkpoints, "average")
    assert load(second, run.path)["a"].item() == 1.5
    assert list_checkpoints(run.checkpoints) == before
    prune_checkpoints(run.checkpoints, TrainingConfig(keep_last=1))
    assert second.is_dir()
    assert find_checkpoint(run.checkpoints, "last").name == "step-00000040"


# --- what does not fit ----------------------------------------------------------------------------


def test_without_an_average_it_says_how_to_make_one(tmp_path: Path) -> None:
    run = RunDirectory(a_run(tmp_path / "run", weights(1.0)))
    with pytest.raises(CheckpointError, match="no average yet; run: transformer-cli average "):
        find_checkpoint(run.checkpoints, "average")


def test_too_few_checkpoints_are_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", weights(1.0))
    with pytest.raises(UsageError, match=f"{run}: cannot average 2 .* training.keep_last=2"):
        average_run(RunDirectory(run), last=2)


@pytest.mark.parametrize(
    "other",
    [
        {"a": torch.zeros(1)},
        {"a": torch.zeros(1), "b": torch.zeros(2, 3)},
        {"a": torch.zeros(1), "b": torch.zeros(2, 2), "c": torch.zeros(1)},
        {"a": torch.zeros(1, dtype=torch.float64), "b": torch.zeros(2, 2)},
    ],
)
@pytest.mark.parametrize("other_first", [False, True])
def test_weights_that_differ_in_kind_are_refused(
    tmp_path: Path, other: Weights, other_first: bool
) -> None:
    both = [other, weights(1.0)] if other_first else [weights(1.0), other]
    run = RunDirectory(a_run(tmp_path / "run", *both))
    second = list_checkpoints(run.checkpoints)[1]
    with pytest.raises(CheckpointError, match=f"{second}: '[abc]' does not have the same shape"):
        average_run(run, last=2)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(a_run(tmp_path / "run", weights(1.0), weights(2.0)))
    damaged = list_checkpoints(run.checkpoints)[1] / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=f"{damaged}: damaged"):
        average_run(run, last=2)


def test_the_mean_of_one_is_itself(tmp_path: Path) -> None:
    run = RunDirectory(a_run(tmp_path / "run", weights(0.1, 1e-30)))
    checkpoint = Checkpoint.open(list_checkpoints(run.checkpoints)[0], fingerprint(run.tokenizer))
    assert torch.equal(mean_weights([checkpoint])["a"], torch.tensor([0.1, 1e-30]))
