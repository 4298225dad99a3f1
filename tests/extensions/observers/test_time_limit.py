"""``training.max_minutes``: how many steps fit, and that resumed runs keep them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from cli.conftest import Training
from cli.process import Finished, assert_refused, run, run_ranks, signal_at

from transformer_cli.extensions.observers import forecast as module
from transformer_cli.extensions.observers.forecast import Forecast

LINEAR = ("--set", "training.schedule.kind=linear")


def expect(seconds: float, validation: float = 0.0) -> None:
    """Let the 60 steps take so long, instead of measuring them."""
    found = Forecast(seconds, seconds, 1 << 20, validation)
    module.forecast_training = lambda trainer, validator: found


def expect_nothing() -> None:
    module.forecast_training = lambda trainer, validator: None


def expect_by_rank(rank: int) -> None:
    expect(600 * (1 + rank))


def stop_in_step_12() -> None:
    expect(600)
    signal_at("transformer_cli.training.trainer:Trainer", "_update", 12)


def no_measuring() -> None:
    del module.forecast_training


def limited(
    training: Training, path: Path, minutes: float, before: Callable[[], None], *more: str
) -> Finished:
    limit = ("--set", f"training.max_minutes={minutes}")
    return run("train", training.config, "--run-dir", path, *LINEAR, *limit, *more, before=before)


def weights(path: Path, step: int) -> bytes:
    return (path / "checkpoints" / f"step-{step:08}" / "model.safetensors").read_bytes()


def max_steps(path: Path) -> int:
    steps: int = yaml.safe_load((path / "config.yaml").read_text())["training"]["max_steps"]
    return steps


def test_the_schedule_ends_with_the_time_and_a_resumed_run_keeps_that(
    training: Training, tmp_path: Path
) -> None:
    whole = ("--run-dir", tmp_path / "whole", "--set", "training.max_steps=18")
    assert run("train", training.config, *whole, *LINEAR).code == 0

    assert limited(training, tmp_path / "run", 3, stop_in_step_12).code < 0
    resumed = limited(training, tmp_path / "run", 3, no_measuring)
    assert resumed.code == 0, resumed.err
    assert "resuming from step 10" in resumed.err
    assert max_steps(tmp_path / "run") == 18
    assert weights(tmp_path / "run", 18) == weights(tmp_path / "whole", 18)

    again = limited(training, tmp_path / "run", 3, no_measuring)
    assert "nothing left to train: 18 steps are done" in again.err


def test_a_longer_limit_adds_steps(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 1, partial(expect, 600)).code == 0
    assert max_steps(tmp_path) == 6
    longer = limited(training, tmp_path, 2.01, partial(expect, 600))
    # A session of some seconds has used up some of the time.
    assert longer.code == 0, longer.err
    assert 6 < max_steps(tmp_path) <= 18


def test_more_epochs_are_measured_anew(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 60, partial(expect, 60)).code == 0
    assert max_steps(tmp_path) == 60
    more = ("--set", "training.epochs=13")
    assert limited(training, tmp_path, 60, partial(expect, 60), *more).code == 0
    assert max_steps(tmp_path) == 65


def test_the_last_validation_is_within_the_limit(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 3, partial(expect, 600, 100.0)).code == 0
    assert max_steps(tmp_path) == 8


def test_epochs_and_max_steps_still_end_training(training: Training, tmp_path: Path) -> None:
    ended = limited(training, tmp_path / "all", 60, partial(expect, 60))
    assert "60 min: 60 steps, all of training.epochs 12, should fit" in ended.err
    most = ("--set", "training.max_steps=4")
    ended = limited(training, tmp_path / "few", 60, partial(expect, 60), *most)
    assert ended.code == 0
    assert max_steps(tmp_path / "few") == 4


def test_a_limit_within_the_warmup_is_pointed_out(training: Training, tmp_path: Path) -> None:
    path = tmp_path / "run"
    dry = limited(training, path, 1.5, partial(expect, 600), "--dry-run")
    assert "1.5 min: 9 steps, 1.8 of 12 epochs; the learning rate rises in the first 10" in dry.out
    assert not path.exists()


def test_without_a_measurement_there_is_an_error(training: Training, tmp_path: Path) -> None:
    refused = limited(training, tmp_path / "run", 3, expect_nothing)
    assert_refused(refused, 2, "training.max_minutes: the speed cannot be measured")


@pytest.mark.posix
def test_all_processes_make_as_many_steps(training: Training, tmp_path: Path) -> None:
    limit = ("--set", "training.max_minutes=3", "--run-dir", tmp_path)
    ended = run_ranks(2, "train", training.config, *limit, before=expect_by_rank)
    assert [each.code for each in ended] == [0, 0], [each.err for each in ended]
    assert max_steps(tmp_path) == 10
