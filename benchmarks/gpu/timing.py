"""Times on a device that works asynchronously."""

import time
from collections.abc import Callable
from statistics import median

import torch


def synchronize(device: torch.device) -> None:
    """Wait for a GPU, so that the clock can be read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Return the seconds of one call, the mean of ``calls`` in a row."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / calls


def median_seconds(call: Callable[[], object], device: torch.device, rounds: int = 10) -> float:
    """Return the median seconds of a call over rounds of 20 ms; two calls warm up."""
    call()
    once = seconds_of(call, device)
    calls = max(1, min(1000, int(0.02 / once)))
    return median(seconds_of(call, device, calls) for _ in range(rounds))
