"""The learning rate of a run that continues to a new last step."""

import math
from pathlib import Path

import pytest
from cli.conftest import TINY
from cli.process import run

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.extensions.observers.rate_jump import find_jump

D_MODEL = 512


def jump(
    kind: str, step: int, old: int = 4, new: int = 8, **more: int
) -> tuple[float, float] | None:
    """For a run with 10 steps per epoch."""
    warmup = 1 if kind == "inverse_sqrt" else 0
    then, now = (
        TrainingConfig.model_validate(
            {"epochs": epochs, "schedule": {"kind": kind, "peak": 1.0, "warmup": warmup}} | changed
        )
        for epochs, changed in ((old, {}), (new, more))
    )
    return find_jump(then, now, D_MODEL, step, 10)


@pytest.mark.parametrize(
    ("kind", "step", "more", "expected"),
    [
        ("linear", 40, {}, (0.0, 1 - 41 / 80)),
        ("linear", 20, {}, (0.5, 1 - 21 / 80)),
        ("linear", 20, {"max_steps": 30}, (0.5, 1 - 21 / 30)),
        ("cosine", 40, {}, (0.0, 0.5 * (1 + math.cos(math.pi * 41 / 80)))),
    ],
)
def test_a_schedule_with_another_end_jumps(
    kind: str, step: int, more: dict[str, int], expected: tuple[float, float]
) -> None:
    assert jump(kind, step, **more) == pytest.approx(expected)


def test_nothing_jumps_if_the_end_is_the_same_or_does_not_matter() -> None:
    assert jump("linear", 20, new=4) is None
    assert jump("linear", 0) is None, "nothing is trained yet"
    assert jump("linear", 40, new=2) is None, "nothing is left to train"
    assert jump("constant", 40) is None
    assert jump("inverse_sqrt", 40) is None


def test_the_summary_warns(tmp_path: Path) -> None:
    config = tmp_path / "linear.yaml"
    schedule = "{kind: linear, peak: 1e-3, warmup: 10}"
    config.write_text(TINY.replace("{kind: constant, peak: 1e-2, warmup: 10}", schedule))
    command = ("train", config, "--run-dir", tmp_path / "run")
    first = run(*command)
    assert (first.code, "warning" in first.err) == (0, False)
    longer = ("--set", "training.epochs=16")
    # 1e-3 (1 - (61 - 10) / (80 - 10)) by the new end, where it is 0
    warning = (
        "\nwarning       the learning rate jumps from 0 at step 60 to 0.000271 at step 61 "
        "because the linear schedule now ends at step 80; to start another run from these weights "
        "with its own schedule, set 'init: RUN' in its config\n"
    )
    assert warning in run(*command, *longer, "--dry-run").out
    assert warning in run(*command, *longer).err
