"""Forecast the time and memory that training will take, from a few trial steps."""

import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch import Tensor

from transformer_cli.base.errors import CorpusError, TrainingError, is_out_of_memory
from transformer_cli.base.messages import duration, size
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Batch, EpochBatches
from transformer_cli.data.shards import plan_epoch
from transformer_cli.data.store import encode_pairs
from transformer_cli.evaluation.scores import score
from transformer_cli.evaluation.scoring import Validator, find_measurable_pairs, mean_loss
from transformer_cli.extensions.observers.memory import (
    FLOAT,
    count_numbers,
    memory_of,
    processes_sharing,
)
from transformer_cli.inference.engine import Constraint, SearchOptions
from transformer_cli.inference.search import pad
from transformer_cli.inference.translator import ignore, never
from transformer_cli.model.device import empty_cache
from transformer_cli.text.protocol import BOS_ID, EOS_ID, PAD_ID
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.optimizer import Optimizer
from transformer_cli.training.summary import PlannedTraining, Row
from transformer_cli.training.trainer import Trainer

PROBED = 5  # maximum number of trial batches
# Seconds after which no further batch is tried.
_ENOUGH_SECONDS = 8.0
# Number of pairs that estimate the time of an evaluation; on a GPU, few take as long as many.
_MEASURED = {"cpu": 64, "cuda": 1024, "mps": 256}
_LONG = 3600  # seconds; users may want to shorten a longer training
# The machine is loaded below this share of CPU time per thread; an idle machine has over 0.85.
_LOADED = 0.75


@dataclass(frozen=True)
class Forecast:
    """The expected time and memory of the remaining steps."""

    seconds: float  # at the present load, with validations, without checkpoints
    idle_seconds: float
    """The expected seconds on an idle machine; equals ``seconds`` if the machine is idle now."""
    memory: int  # bytes: peak of the tensors on a GPU, else of the process
    validation: float = 0.0  # seconds that one validation takes
    validations: int = 0  # how many of them the seconds include

    def scaled(self, share: float, validations: int) -> "Forecast":
        """Return the forecast for a share of the steps and a number of validations."""
        steps = self.seconds - self.validations * self.validation
        seconds = share * steps + validations * self.validation
        idle = self.idle_seconds * seconds / self.seconds
        return replace(self, seconds=seconds, idle_seconds=idle, validations=validations)


@dataclass(frozen=True)
class EpochSample:
    """A few batches from the largest shard, and the size of an epoch, estimated from that shard."""

    padded_tokens: int
    """The number of tokens in an epoch, on both sides, including padding."""
    batches: Iterator[Batch]
    """The largest batch, then some others in order of length."""


def sample_epoch(epochs: EpochBatches, count: int) -> EpochSample:
    """Return an estimate of the first epoch's size, and at most ``count`` of its batches."""
    shard = int(np.argmax(epochs.batches_per_shard))
    planned = epochs.text.shard_lengths(shard)
    plan = plan_epoch(planned, epochs.batch_tokens, epochs.seed, 0, shard)
    lengths = np.stack(planned) + 1
    longest = np.array([lengths[:, indices].max(axis=1) for indices in plan])
    padded = longest.sum(axis=1) * np.array([len(indices) for indices in plan])
    # Scaling is fair because each shard is an even sample of the text.
    scale = len(epochs) / epochs.batches_per_shard[shard]
    by_length = np.argsort(longest.max(axis=1), kind="stable")
    middles = (2 * np.arange(count - 1) + 1) * len(plan) // (2 * max(1, count - 1))
    indices = [int(padded.argmax()), *by_length[middles].tolist()]
    return EpochSample(round(padded.sum() * scale), epochs.iter_shard(shard, 0, indices))


def forecast_rows(planned: PlannedTraining, known: "Forecast | None" = None) -> Iterator[Row]:
    """Yield a row of the summary with a forecast of the remaining steps, ``known`` or made now."""
    if not trial_fits(planned.trainer, planned.request.config):
        yield "forecast", "none: trial steps need a copy of the model, which does not fit"
        return
    assert isinstance(planned.validator, Validator)
    if expected := known or forecast_training(planned.trainer, planned.validator):
        has_limit = getattr(planned.request.config.training, "max_minutes", None) is not None
        yield "forecast", describe_forecast(expected, has_limit)


def forecast_training(trainer: Trainer, validator: Validator) -> Forecast | None:
    """Forecast the time and memory of the remaining steps and validations; see ``forecast``."""
    sample = sample_epoch(trainer.epochs, PROBED)
    return forecast(trainer, sample, lambda: time_validation(validator))


def forecast(
    trainer: Trainer, sample: EpochSample, time_validation: Callable[[], float] = lambda: 0.0
) -> Forecast | None:
    """Forecast from a few trial steps, with the largest batch first, on a copy of the weights.

    ``time_validation`` returns the seconds that one validation takes. The trainer and the random
    state do not change. Each rank forecasts by itself, so communication is not included. Return
    None if a batch does not fit into memory or its loss or gradient is not finite.
    """
    on_gpu = trainer.device.type == "cuda"
    with torch.random.fork_rng(devices=[trainer.device] if on_gpu else []):
        try:
            return _forecast(trainer, sample, time_validation)
        except TrainingError:
            return None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None
        finally:
            empty_cache()


def _forecast(
    trainer: Trainer, sample: EpochSample, time_validation: Callable[[], float]
) -> Forecast:
    began = time.monotonic()
    allocated = 0
    if trainer.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(trainer.device)
        allocated = torch.cuda.memory_allocated(trainer.device)
    trial = Trial(trainer)
    largest = next(sample.batches)
    one_pair = largest.select(slice(1))
    # The first step allocates memory that later steps reuse, for example Adam's moments.
    _time_step(trial, one_pair)
    measured = [(largest, _time_step(trial, largest))]
    memory = _peak_memory(trainer.device) - allocated
    # A step on one pair measures the time that does not depend on the batch size.
    overhead = overhead_per_step = _time_step(trial, one_pair).wall
    if (accumulate := trainer.config.accumulate) > 1:
        overhead_per_step = _time_step(trial, *[one_pair] * accumulate).wall
    typical: list[tuple[Batch, _StepTimes]] = []
    while time.monotonic() - began < _ENOUGH_SECONDS:
        started = time.monotonic()
        batch = next(sample.batches, None)
        if batch is None:
            break
        made = time.monotonic() - started
        step = _time_step(trial, batch)
        typical.append((batch, _StepTimes(made + step.wall, made + step.cpu)))
    measured = typical or measured
    tokens = sum(batch.src.numel() + batch.tgt_in.numel() for batch, _ in measured)
    seconds = sum(times.wall for _, times in measured)
    per_token = max(0.0, seconds - len(measured) * overhead) / tokens
    tokens_per_step = sample.padded_tokens / (trainer.ranks.size * trainer.steps_per_epoch)
    steps_left = trainer.total_steps - trainer.step
    at_this_load = steps_left * (overhead_per_step + tokens_per_step * per_token)
    validation, validations = time_validation(), count_validations(trainer)
    at_this_load += validations * validation
    cpu_share = sum(times.cpu for _, times in measured) / seconds
    alone = at_this_load * (cpu_share if cpu_share < _LOADED else 1.0)
    return Forecast(at_this_load, alone, memory, validation, validations)


def count_validations(trainer: Trainer) -> int:
    """Return how many validations are left if patience does not end training early."""
    every = trainer.config.validate_every or trainer.steps_per_epoch
    return -(-trainer.total_steps // every) - trainer.step // every


class Trial:
    """Training steps on a copy of a trainer's weights, in one process, to measure their cost."""

    def __init__(self, trainer: Trainer) -> None:
        self.device, self._config = trainer.device, trainer.config
        self._model = copy.deepcopy(trainer.model)
        average = copy.deepcopy(self._model) if self._config.has_average else self._model
        self._optimizer = Optimizer(self._model, average, self._config, SINGLE_PROCESS)
        self._gradients = GradientAccumulator(
            self._model, self._config, trainer.precision, 0, SINGLE_PROCESS
        )
        self._rate = self._config.schedule.rate(1, trainer.total_steps, trainer.d_model)

    def step(self, batches: Sequence[Batch]) -> None:
        """Make one step; raise TrainingError if its loss is not finite and may not be skipped."""
        self._model.train()
        self._optimizer.prepare()
        tgt_tokens = sum(batch.tgt_tokens for batch in batches)
        losses = self._gradients.accumulate(1, batches, tgt_tokens)
        is_finite = self._optimizer.step(losses, 1, self._rate).is_finite
        if not (is_finite or self._config.skip_nonfinite):
            raise TrainingError("trial step: its loss or gradient is not finite")


class _StepTimes(NamedTuple):
    """The seconds that a step takes: wall time, and CPU time of this thread."""

    wall: float
    cpu: float


def _time_step(trial: Trial, *batches: Batch) -> _StepTimes:
    on_gpu = trial.device.type != "cpu"
    if on_gpu:  # the first step of a shape also loads and chooses kernels
        trial.step(batches)
        torch.accelerator.synchronize(trial.device)
    started, computed = time.monotonic(), time.thread_time()
    trial.step(batches)
    if on_gpu:
        torch.accelerator.synchronize(trial.device)
    wall = time.monotonic() - started
    return _StepTimes(wall, wall if on_gpu else time.thread_time() - computed)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def trial_fits(trainer: Trainer, config: Config) -> bool:
    """Return whether a forecast's copy of the model fits into memory next to the trainer."""
    numbers = count_numbers(trainer.model, config)
    held = numbers.weights + (numbers.state if trainer.step else 0)
    sharing = processes_sharing(trainer.device, trainer.ranks)
    return sharing * FLOAT * (held + sum(numbers)) <= memory_of(trainer.device)


def describe_forecast(expected: Forecast, has_limit: bool = False) -> str:
    """Describe a forecast in words, with advice if it is long and training has no time limit."""
    seconds = duration(expected.seconds)
    if expected.idle_seconds < expected.seconds:
        seconds = (
            f"{duration(expected.idle_seconds)} on an idle machine, {seconds} at the present load"
        )
    is_long = expected.seconds > _LONG and not has_limit
    return (
        f"about {seconds} with validations, and at least {size(expected.memory)} of "
        f"memory{'; training.max_minutes shortens it' * is_long}"
    )


def time_validation(validator: Validator) -> float:
    """Return the seconds that one validation takes."""
    return time_pair(validator) * len(validator.pairs) / validator.trainer.ranks.size


@dataclass(frozen=True)
class _References(Constraint):
    """A constraint that forces a search to write the reference translations."""

    ids: Sequence[list[int]]

    def of_batch(self, places: Sequence[int], device: Any) -> Callable[[Any, Any, Any], object]:
        forced = pad([[*self.ids[place], EOS_ID] for place in places], EOS_ID).to(device)

        def force(log_probabilities: Tensor, sentences: Tensor, written: Tensor) -> None:
            # Higher than all others, which are negative logarithms.
            log_probabilities.scatter_(1, forced[sentences, written.size(1) - 1, None], 1.0)

        return force


def time_pair(validator: Validator) -> float:
    """Return the seconds that evaluating one pair takes, measured on pairs of the split ``val``.

    The search is forced to write the pairs' references, because an untrained model would write
    much longer translations.
    """
    pairs, device = validator.pairs, validator.trainer.device
    count = min(len(pairs), _MEASURED[device.type])
    places = [number * len(pairs) // count for number in range(count)]
    src, tgt = ([side[place] for place in places] for side in (pairs.src, pairs.tgt))
    translator = validator.translator.with_search(beam_size=1)
    encoded = encode_pairs(zip(src, tgt, strict=True), translator.tokenizers)
    try:
        short = find_measurable_pairs(translator, encoded)
    except CorpusError:  # no pair of this sample is short enough, although others are
        return 0.0
    encoded = encoded.take(short)
    sources = [[*encoded.src[place].tolist(), EOS_ID] for place in range(len(short))]
    references = [encoded.tgt[place].tolist() for place in range(len(short))]
    limits = [len(ids) + 1 for ids in references]
    forced = (_References(references),)
    options = SearchOptions(BOS_ID, EOS_ID, (PAD_ID, BOS_ID), constraints=forced)
    validator.trainer.eval_model.eval()
    engine, batch_tokens = translator.engine, translator.decoding.batch_tokens
    training_tokens = translator.config.training.batch_tokens

    def evaluate() -> None:
        engine.search(sources, limits, options, batch_tokens, ignore, never)
        mean_loss(engine.model, encoded, training_tokens, engine.precision)
        # Shift the lines, because identical lines are scored faster.
        score([*tgt[1:], tgt[0]], tgt, metrics=validator.metrics)

    if device.type != "cpu":
        evaluate()  # the first call also loads and chooses kernels
    started = time.monotonic()
    evaluate()
    return (time.monotonic() - started) / len(short)
