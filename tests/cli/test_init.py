"""A training that starts from the weights of another one."""

import shutil
from pathlib import Path

import pytest
import torch
from copied_text import FEWER
from safetensors.torch import load_file

from cli.conftest import Training
from cli.process import Finished, assert_refused, run
from cli.test_train import contents
from transformer_cli.runs.checkpoint import find_checkpoint

# Other lines than those of the run to start from, so that learning gives another vocabulary.
OTHER_LINES = ("--set", FEWER)


def train(
    config: Path, init: Path, run_dir: Path, *options: str | Path, steps: int = 1
) -> Finished:
    return run(
        *("train", config, "--run-dir", run_dir, *OTHER_LINES, *options),
        *("--set", f"init={init}", "--set", f"training.max_steps={steps}"),
    )


def test_it_starts_with_the_best_weights_and_the_same_tokens(
    training: Training, config: Path
) -> None:
    new = config.parent / "new"
    # A step that moves no weight.
    still = ("training.schedule={kind: constant, peak: 1e-30}", "training.ema_decay=0.9")
    options = [part for setting in still for part in ("--set", setting)]
    finished = train(config, training.run, new, *options)
    assert finished.code == 0, finished.err

    inherited = load_file(
        find_checkpoint(training.run / "checkpoints", "best") / "model.safetensors"
    )
    checkpoint = new / "checkpoints" / "step-00000001"
    averaged = load_file(checkpoint / "model.safetensors")
    beside = load_file(checkpoint / "optimizer.safetensors")
    assert averaged.keys() == inherited.keys()
    for name, weight in inherited.items():
        for found in (averaged[name], beside[f"weight.{name}"]):
            assert torch.allclose(found, weight, rtol=1e-6, atol=1e-20), name

    own, theirs = contents(new / "tokenizer"), contents(training.run / "tokenizer")
    assert own.pop("tokenizer.json") != theirs.pop("tokenizer.json")
    assert own == theirs

    old = find_checkpoint(training.run / "checkpoints", "last")
    refused = run("evaluate", new, "--checkpoint", old)
    assert_refused(refused, 1, f"{old}: trained with a different tokenizer")


def test_what_it_started_from_may_be_deleted(training: Training, config: Path) -> None:
    init = shutil.copytree(training.run, config.parent / "init")
    straight, stopped = config.parent / "straight", config.parent / "stopped"
    assert train(config, init, straight, steps=2).code == 0
    assert train(config, init, stopped).code == 0

    refused = train(config, config.parent / "other", stopped, steps=2)
    assert_refused(refused, 2, f"init was {init}, now {config.parent / 'other'}")
    shutil.rmtree(init)
    finished = train(config, init, stopped, steps=2)
    assert finished.code == 0, finished.err
    assert "resuming from step 1\n" in finished.err
    for name in ("model.safetensors", "optimizer.safetensors"):
        last = Path("checkpoints", "step-00000002", name)
        assert (stopped / last).read_bytes() == (straight / last).read_bytes()


@pytest.mark.parametrize("command", ["train", "vocab"])
def test_what_does_not_fit_is_refused_before_anything_is_deleted(
    training: Training, config: Path, own_run: Path, command: str
) -> None:
    before = contents(own_run)

    def refuse(*options: str | Path) -> Finished:
        return run(command, config, *options, cwd=config.parent)

    over = ("--run-dir", own_run, "--overwrite")
    itself = refuse(*over, "--set", f"init={own_run.name}")
    assert_refused(itself, 2, f"init: {own_run} is the run directory itself", "--run-dir")
    none = ("--set", "init=none")
    assert_refused(refuse(*over, *none), 2, f"{config.parent / 'none'}: not a run directory")
    other = ("--set", f"init={training.run}", "--set", "model.norm=post")
    assert_refused(refuse(*over, *other), 2, "model.norm pre, not post")
    assert contents(own_run) == before

    assert_refused(refuse("--run-dir", "new", *other), 2, "model.norm pre, not post")
    assert not (config.parent / "new").exists()
