"""How long a training will take and how much memory, told from a few steps on trial."""

import resource
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import torch

from transformer_cli.data.batches import Batch
from transformer_cli.data.epochs import EpochSample
from transformer_cli.errors import TrainingError, is_out_of_memory
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.trainer import Trainer

PROBED = 5
"""Most batches that are tried."""
WORTHWHILE = 20 * PROBED
"""Fewer batches than this are trained on about as soon as their time is told."""
_ENOUGH_SECONDS = 8.0
"""No further batch is tried after that."""
_LOADED = 0.75
"""Who computes less than this part of the time has company; alone it is over 0.85."""


@dataclass(frozen=True)
class Forecast:
    """What the steps that are left will take, in all likelihood."""

    seconds: float
    """Of training at the present load; of validations and checkpoints, nothing is known yet."""
    idle_seconds: float
    """The same on an idle machine; ``seconds``, where nothing else is computing."""
    memory: int
    """Bytes: on a GPU what its tensors take, elsewhere what the process takes."""


def forecast(trainer: Trainer, sample: EpochSample) -> Forecast | None:
    """Try a few batches on a copy of the weights, of which nothing remains.

    Where several ranks train, each tries by itself: what they have to tell each other in a step
    is not in the forecast.

    Args:
        trainer: where training stands; nothing of it changes, nor do random draws to come.
        sample: of its batches, the largest one first.

    Returns:
        None, if a batch did not fit into memory or made no finite gradient.
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
            if on_gpu:
                torch.cuda.empty_cache()


def _forecast(trainer: Trainer, sample: EpochSample) -> Forecast:
    began = time.monotonic()
    if trainer.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(trainer.device)
    held = _allocated(trainer.device)
    spare = trainer.spare()
    largest = next(sample.batches)
    # The first step makes what later ones use again, such as Adam's moments.
    _times_of(spare, _first_pair(largest))
    measured = [(_padded(largest), _times_of(spare, largest))]
    memory = _peak_memory(trainer.device) - held
    # With hardly anything to learn from, a step is what all steps do once.
    once = _times_of(spare, _first_pair(largest)).passed
    typical: list[tuple[int, _Times]] = []
    while time.monotonic() - began < _ENOUGH_SECONDS:
        started = time.monotonic()
        batch = next(sample.batches, None)
        if batch is None:
            break
        made = time.monotonic() - started
        step = _times_of(spare, batch)
        typical.append((_padded(batch), _Times(made + step.passed, made + step.computing)))
    measured = typical or measured
    tokens = sum(padded for padded, _ in measured)
    seconds = sum(times.passed for _, times in measured)
    a_token = max(0.0, seconds - len(measured) * once) / tokens
    tokens_a_step = sum(sample.padded_tokens) / (trainer.ranks.size * trainer.steps_per_epoch)
    steps_left = trainer.total_steps - trainer.step
    at_this_load = steps_left * (once + tokens_a_step * a_token)
    computing = sum(times.computing for _, times in measured) / seconds
    alone = at_this_load * (computing if computing < _LOADED else 1.0)
    return Forecast(at_this_load, alone, memory)


class _Times(NamedTuple):
    """Seconds of a step."""

    passed: float
    computing: float
    """That this thread was running, and not waiting for a core, or for threads that did."""


def _times_of(spare: Trainer, batch: Batch) -> _Times:
    started, computed = time.monotonic(), time.thread_time()
    spare.try_step([batch])
    on_gpu = spare.device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(spare.device)
    passed = time.monotonic() - started
    return _Times(passed, passed if on_gpu else time.thread_time() - computed)


def _padded(batch: Batch) -> int:
    return batch.src.numel() + batch.tgt_in.numel()


def _first_pair(batch: Batch) -> Batch:
    src, tgt_in, tgt_out = (rows[:1] for rows in (batch.src, batch.tgt_in, batch.tgt_out))
    return Batch(src, tgt_in, tgt_out, int((tgt_out != PAD_ID).sum()))


def _allocated(device: torch.device) -> int:
    """Bytes of what the trainer itself holds, and of which its spare holds another one."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _peak_memory(device: torch.device) -> int:
    """Most bytes that have been in use at a time."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
