"""Learning rates by hand-worked numbers, and what every schedule must do at its corners."""

import math
from itertools import pairwise
from typing import Any, get_args

import pytest

from transformer_cli.config.schema import (
    ConstantSchedule,
    CosineSchedule,
    LinearSchedule,
    NoamSchedule,
    Schedule,
    ScheduleConfig,
)

PEAK, WARMUP, TOTAL = 2e-3, 100, 1100
D_MODEL = 512

_, KINDS = get_args(ScheduleConfig)


def rising(kind: str, warmup: int = WARMUP) -> Schedule:
    """A schedule of this kind that rises to PEAK."""
    # Noam's highest rate is factor * (d_model * warmup)^-0.5: this factor makes it PEAK.
    rises: dict[str, Any] = {"factor": PEAK * math.sqrt(D_MODEL * warmup)}
    if kind != "noam":
        rises = {"peak": PEAK}
    schedule: Schedule = KINDS.find(kind)(kind=kind, warmup=warmup, **rises)
    return schedule


RISING = {kind: rising(kind) for kind in KINDS.names()}
ALL = pytest.mark.parametrize("schedule", RISING.values(), ids=RISING)


def rate(schedule: Schedule, step: int, total_steps: int = TOTAL) -> float:
    return schedule.rate(step, total_steps, D_MODEL)


# 2 / sqrt(512) = 0.0883883476.
# Step 1: by 4000^1.5 = 252,982.213 it is 3.49385e-7. Step 4000: by sqrt(4000) = 63.2455532 it is
# 1.397542e-3. Step 16,000 is four times as late, so half of that: 6.98771e-4.
@pytest.mark.parametrize(
    ("step", "expected"), [(1, 3.493856e-7), (4000, 1.397542e-3), (16_000, 6.987712e-4)]
)
def test_noam_by_hand(step: int, expected: float) -> None:
    schedule = NoamSchedule(kind="noam", factor=2.0, warmup=4000)
    assert schedule.rate(step, 100_000, d_model=512) == pytest.approx(expected, rel=1e-6)


@ALL
def test_the_warm_up_is_a_straight_line_from_zero(schedule: Schedule) -> None:
    for step in range(1, WARMUP + 1):
        assert rate(schedule, step) == pytest.approx(PEAK * step / WARMUP, rel=1e-12)


@ALL
def test_the_peak_is_reached_at_the_warm_ups_end(schedule: Schedule) -> None:
    assert rate(schedule, WARMUP) == pytest.approx(PEAK, rel=1e-12)
    assert max(rate(schedule, step) for step in range(1, TOTAL + 1)) <= PEAK * (1.0 + 1e-12)


def largest_change(schedule: Schedule, total_steps: int) -> float:
    rates = [rate(schedule, step, total_steps) for step in range(1, total_steps + 1)]
    return max(abs(after - before) for before, after in pairwise(rates))


@pytest.mark.parametrize("kind", RISING)
def test_nothing_jumps(kind: str) -> None:
    # A jump would be as large in ten times as many steps.
    longer = largest_change(rising(kind, 10 * WARMUP), 10 * TOTAL)
    assert longer < 0.5 * largest_change(RISING[kind], TOTAL)


@ALL
def test_nothing_rises_after_the_warm_up(schedule: Schedule) -> None:
    rates = [rate(schedule, step) for step in range(WARMUP, TOTAL + 1)]
    assert rates == sorted(rates, reverse=True)


def test_constant_stays() -> None:
    assert {rate(RISING["constant"], step) for step in (100, 101, 600, 1100, 9999)} == {PEAK}


@pytest.mark.parametrize("kind", ["noam", "inverse_sqrt"])
def test_four_times_as_late_is_half_the_rate(kind: str) -> None:
    assert rate(RISING[kind], 4 * WARMUP) == pytest.approx(PEAK / 2.0, rel=1e-12)
    assert rate(RISING[kind], 9 * WARMUP) == pytest.approx(PEAK / 3.0, rel=1e-12)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_half_in_the_middle_and_zero_at_the_end(kind: str) -> None:
    # 1000 steps come down: the middle is step 600.
    assert rate(RISING[kind], 600) == pytest.approx(PEAK / 2.0, rel=1e-12)
    assert rate(RISING[kind], TOTAL - 1) > 0.0
    assert rate(RISING[kind], TOTAL) == 0.0
    assert rate(RISING[kind], TOTAL + 50) == 0.0


def test_a_quarter_of_the_way_down() -> None:
    # Step 350 is 250 of 1000: linear 3/4; cosine (1 + cos(pi / 4)) / 2 = 0.8535534.
    assert rate(RISING["linear"], 350) == pytest.approx(0.75 * PEAK, rel=1e-12)
    assert rate(RISING["cosine"], 350) == pytest.approx(0.8535534 * PEAK, rel=1e-7)


def test_without_a_warm_up() -> None:
    # Step 1 of 4 is a quarter down: 3/4, and (1 + cos(pi / 4)) / 2 = 0.8535534.
    constant = ConstantSchedule(kind="constant", peak=PEAK)
    linear = LinearSchedule(kind="linear", peak=PEAK, warmup=0)
    cosine = CosineSchedule(kind="cosine", peak=PEAK, warmup=0)
    assert rate(constant, 1, total_steps=4) == PEAK
    assert rate(linear, 1, total_steps=4) == pytest.approx(0.75 * PEAK, rel=1e-12)
    assert rate(cosine, 1, total_steps=4) == pytest.approx(0.8535534 * PEAK, rel=1e-7)
    for schedule in (linear, cosine):
        assert rate(schedule, 2, total_steps=4) == pytest.approx(PEAK / 2.0, rel=1e-12)
        assert rate(schedule, 4, total_steps=4) == 0.0


@ALL
@pytest.mark.parametrize("total_steps", [1, 50, 100, 101])
def test_a_run_shorter_than_its_warm_up(schedule: Schedule, total_steps: int) -> None:
    for step in range(1, min(total_steps, WARMUP) + 1):
        assert rate(schedule, step, total_steps) == pytest.approx(PEAK * step / WARMUP, rel=1e-12)
