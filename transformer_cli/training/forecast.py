"""Forecast a training's duration and memory from a few trial steps."""

import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import psutil
import torch

from transformer_cli.data.batches import Batch, EpochSample
from transformer_cli.errors import TrainingError, is_out_of_memory
from transformer_cli.model.device import empty_cache, synchronize
from transformer_cli.training.trainer import Trainer

PROBED = 5
"""Maximum number of trial batches."""
WORTHWHILE = 20 * PROBED
"""With fewer batches than this, a forecast takes about as long as training."""
_ENOUGH_SECONDS = 8.0
"""Time after which no further batch is tried."""
_LOADED = 0.75
"""The machine is loaded if a thread's share of CPU time is below this; else it is over 0.85."""


@dataclass(frozen=True)
class Forecast:
    """Expected cost of the steps that are left."""

    seconds: float
    """Training time at the present load, without validations and checkpoints."""
    idle_seconds: float
    """The same on an idle machine; equals ``seconds`` if the machine is idle now."""
    memory: int
    """Bytes: peak of the tensors on a GPU, else of the process."""


def forecast(trainer: Trainer, sample: EpochSample) -> Forecast | None:
    """Forecast from a few trial batches, on a copy of the trainer.

    Each rank tries by itself, so communication is not in the forecast.

    Args:
        trainer: neither it nor the random state changes.
        sample: a sample of its batches, the largest one first.

    Returns:
        The forecast; None if a batch does not fit into memory or its gradient is not finite.
    """
    on_gpu = trainer.device.type == "cuda"
    with torch.random.fork_rng(devices=[trainer.device] if on_gpu else []):
        try:
            return _forecast(trainer, sample)
        except TrainingError:
            return None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            empty_cache()


def _forecast(trainer: Trainer, sample: EpochSample) -> Forecast:
    began = time.monotonic()
    if trainer.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(trainer.device)
    allocated = _allocated_memory(trainer.device)
    trial = trainer.copy_for_trial()
    largest = next(sample.batches)
    # The first step allocates what later ones reuse, such as Adam's moments.
    _time_step(trial, largest.select(slice(1)))
    measured = [(_padded_tokens(largest), _time_step(trial, largest))]
    memory = _peak_memory(trainer.device) - allocated
    # A step on one pair takes the time that does not depend on the batch size.
    overhead = _time_step(trial, largest.select(slice(1))).wall
    typical: list[tuple[int, _StepTimes]] = []
    while time.monotonic() - began < _ENOUGH_SECONDS:
        started = time.monotonic()
        batch = next(sample.batches, None)
        if batch is None:
            break
        made = time.monotonic() - started
        step = _time_step(trial, batch)
        typical.append((_padded_tokens(batch), _StepTimes(made + step.wall, made + step.cpu)))
    measured = typical or measured
    tokens = sum(padded for padded, _ in measured)
    seconds = sum(times.wall for _, times in measured)
    per_token = max(0.0, seconds - len(measured) * overhead) / tokens
    tokens_per_step = sum(sample.padded_tokens) / (trainer.ranks.size * trainer.steps_per_epoch)
    steps_left = trainer.total_steps - trainer.step
    at_this_load = steps_left * (overhead + tokens_per_step * per_token)
    cpu_share = sum(times.cpu for _, times in measured) / seconds
    alone = at_this_load * (cpu_share if cpu_share < _LOADED else 1.0)
    return Forecast(at_this_load, alone, memory)


class _StepTimes(NamedTuple):
    """Seconds of a step: wall time, and CPU time of this thread."""

    wall: float
    cpu: float


def _time_step(trial: Trainer, batch: Batch) -> _StepTimes:
    started, computed = time.monotonic(), time.thread_time()
    trial.try_step([batch])
    on_gpu = trial.device.type != "cpu"
    synchronize(trial.device)
    wall = time.monotonic() - started
    return _StepTimes(wall, wall if on_gpu else time.thread_time() - computed)


def _padded_tokens(batch: Batch) -> int:
    return batch.src.numel() + batch.tgt_in.numel()


def _allocated_memory(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
