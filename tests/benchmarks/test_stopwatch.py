"""The stopwatch counts what comes after the warm-up, and nothing before."""

import argparse

import pytest

from benchmarks.stopwatch import WARM_UP, Stopwatch, updates_argument


def test_the_warm_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0] * (WARM_UP - 1) + [10.0, 11.0, 14.0])
    monkeypatch.setattr("benchmarks.stopwatch.time.perf_counter", lambda: next(clock))
    stopwatch = Stopwatch()
    for _ in range(WARM_UP):
        stopwatch.update_done(1000, 1000)
    stopwatch.update_done(30, 20)
    stopwatch.update_done(50, 40)
    assert stopwatch.result(1.5) == {
        "tgt_tokens_per_second": 15.0,
        "src_tokens_per_second": 20.0,
        "tgt_tokens_per_update": 30.0,
        "validation_loss": 1.5,
        "updates": WARM_UP + 2,
        "seconds": 4.0,
    }


@pytest.mark.parametrize("text", ["five", "-9", str(WARM_UP)])
def test_some_updates_must_be_timed(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"above {WARM_UP}"):
        updates_argument(text)
