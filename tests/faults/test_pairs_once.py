"""However a training is stopped, each pair of the text is seen exactly once an epoch."""

import json
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import run_ranks, signal_at

pytestmark = pytest.mark.posix

PAIRS = 200
EPOCHS = 3
# 200 pairs in 15 batches, two of them to a step on each rank: on two ranks four steps an epoch, the
# last one of three batches; on one rank eight, the last one of one batch.
SETTINGS = {"batch_tokens": 70, "accumulate": 2, "epochs": EPOCHS}
STEPS = {1: 8, 2: 4}
GRADIENTS = "transformer_cli.training.loss:GradientAccumulator"


def prepare(seen: Path, signals: tuple[str, int] | None, rank: int) -> None:
    """Note each row that a rank makes gradients of, with its epoch; have it asked to stop."""
    from transformer_cli.training.trainer import Trainer

    update = Trainer._update

    def noting(trainer: Trainer, batches: list[Any], *arguments: Any) -> Any:
        epoch = trainer.epoch - (trainer.batch == 0)  # already counts this step
        with (seen / f"rank-{rank}").open("a") as file:
            for batch in batches:
                for row in batch.src.tolist():
                    file.write(json.dumps([epoch, [each for each in row if each > 3]]) + "\n")
        return update(trainer, batches, *arguments)

    Trainer._update = noting  # type: ignore[method-assign, assignment]
    if signals is not None:
        method, call = signals
        signal_at(GRADIENTS, method, call, signal.SIGTERM)


@pytest.mark.parametrize(
    "where",
    [
        "mid-accumulation",
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in ("mid-epoch", "epoch's end", "the end")
        ),
    ],
)
def test_each_pair_is_seen_once_an_epoch(training: Training, tmp_path: Path, where: str) -> None:
    check_pairs(training, tmp_path, 1, where)


def check_pairs(training: Training, tmp_path: Path, ranks: int, where: str) -> None:
    """Stop a training at a place and resume it; check that each pair was seen once an epoch."""
    epoch = STEPS[ranks]
    asked = {
        "mid-epoch": ("accumulate", epoch + 2),
        # before the second batch of the third step
        "mid-accumulation": ("_run", 2 * 2 + 2),
        "epoch's end": ("accumulate", epoch),
        "the end": ("accumulate", EPOCHS * epoch),
    }[where]
    options = [f"--set=training.{key}={value}" for key, value in SETTINGS.items()]
    run_dir = tmp_path / "run"
    command: list[str | Path] = ["train", training.config, "--run-dir", run_dir, *options]
    for signals in (asked, None):
        finished = run_ranks(ranks, *command, before=partial(prepare, tmp_path, signals))
        # At the end it is the validation that is stopped.
        assert {each.code for each in finished} == {143 if signals else 0}, finished
    seen: list[Counter[str]] = [Counter() for _ in range(EPOCHS)]
    for rank in range(ranks):
        for line in (tmp_path / f"rank-{rank}").read_text().splitlines():
            number, row = json.loads(line)
            seen[number][str(row)] += 1
    assert [each.total() for each in seen] == [PAIRS] * EPOCHS
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) > PAIRS / 2
