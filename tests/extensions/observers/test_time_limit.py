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


def no_measuring(rank: int = 0) -> None:
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


def test_a_damaged_checkpoint_changes_no_plan(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 3, partial(expect, 600)).code == 0
    (tmp_path / "checkpoints" / "step-00000018" / "state.json").write_text("{")
    again = limited(training, tmp_path, 3, no_measuring)
    assert again.code == 0, again.err
    assert max_steps(tmp_path) == 18
    assert "trained 18 steps" in again.out


def test_a_longer_limit_adds_steps(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 1, partial(expect, 600)).code == 0
    assert max_steps(tmp_path) == 6
    longer = limited(training, tmp_path, 2.01, partial(expect, 600))
    # A session of some seconds has used up some of the time.
    assert longer.code == 0, longer.err
    assert 6 < max_steps(tmp_path) <= 18


def test_a_shorter_limit_ends_a_run_that_has_used_it_up(training: Training, tmp_path: Path) -> None:
    assert limited(training, tmp_path, 1, partial(expect, 600)).code == 0
    ended = limited(training, tmp_path, 1e-4, no_measuring)
    assert ended.code == 0, ended.err
    assert "0.0001 min: used up; raise training.max_minutes to go on" in ended.err
    assert "nothing left to train: 6 steps are done" in ended.err


def test_more_epochs_are_measured_again(training: Training, tmp_path: Path) -> None:
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
    assert "60 min: all 60 steps should fit" in ended.err
    few = tmp_path / "few"
    for most in (4, 6):
        given = ("--set", f"training.max_steps={most}")
        assert limited(training, few, 60, partial(expect, 60), *given).code == 0
        assert max_steps(few) == most


def test_a_limit_within_the_warmup_is_pointed_out(training: Training, tmp_path: Path) -> None:
    path = tmp_path / "run"
    dry = limited(training, path, 1.5, partial(expect, 600), "--dry-run")
    assert "1.5 min: 9 of 60 steps fit (1.8 epochs); the learning rate rises in the fir" in dry.out
    assert not path.exists()


def test_without_a_measurement_there_is_an_error(training: Training, tmp_path: Path) -> None:
    refused = limited(training, tmp_path / "run", 3, expect_nothing)
    assert_refused(refused, 2, "training.max_minutes: the speed cannot be measured")


@pytest.mark.posix
def test_all_processes_make_as_many_steps(training: Training, tmp_path: Path) -> None:
    limit = ("--set", "training.max_minutes=3", "--run-dir", tmp_path)
    for before in (expect_by_rank, no_measuring):
        ended = run_ranks(2, "train", training.config, *limit, before=before)
        assert [each.code for each in ended] == [0, 0], [each.err for each in ended]
    assert max_steps(tmp_path) == 10
