"""What a training takes: memory and arithmetic, by its shapes, and time, by a few trial steps."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from transformer_cli.base.errors import ConfigError, TrainingError, is_out_of_memory, size
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.data.batches import Batch, EpochSample
from transformer_cli.model.device import empty_cache, synchronize
from transformer_cli.model.transformer import Transformer, build_shapes, count_parameters
from transformer_cli.text.vocabulary import PAD_ID, SPECIALS
from transformer_cli.training.optimizer import OPTIMIZERS, kind_of
from transformer_cli.training.trainer import Trainer

_FLOAT = 4
SMALLEST = (len(SPECIALS), len(SPECIALS))
"""The smallest vocabulary sizes, while the real ones are unknown."""
PROBED = 5  # maximum number of trial batches
WORTHWHILE = 20 * PROBED  # with fewer batches than this, a forecast takes about as long as training
# Time after which no further batch is tried.
_ENOUGH_SECONDS = 8.0
# The machine is loaded if a thread's share of CPU time is below this; else it is over 0.85.
_LOADED = 0.75


@dataclass(frozen=True)
class Forecast:
    """Expected cost of the steps that are left."""

    seconds: float  # at the present load, with validations, without checkpoints
    idle_seconds: float
    """The same on an idle machine; equals ``seconds`` if the machine is idle now."""
    memory: int  # bytes: peak of the tensors on a GPU, else of the process


def forecast(
    trainer: Trainer, sample: EpochSample, time_validation: Callable[[], float] = lambda: 0.0
) -> Forecast | None:
    """Forecast from a few trial batches, the largest first, on a copy of the trainer.

    ``time_validation`` returns the seconds that a validation takes.
    Neither the trainer nor the random state changes. Each rank tries by itself, so communication is
    not in the forecast. None: a batch does not fit into memory or its gradient is not finite.
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
    trial = trainer.copy_for_trial()
    largest = next(sample.batches)
    # The first step allocates what later ones reuse, such as Adam's moments.
    _time_step(trial, largest.select(slice(1)))
    measured = [(largest.src.numel() + largest.tgt_in.numel(), _time_step(trial, largest))]
    memory = _peak_memory(trainer.device) - allocated
    # A step on one pair takes the time that does not depend on the batch size.
    one_pair = largest.select(slice(1))
    overhead = _time_step(trial, one_pair).wall
    accumulate = trainer.config.accumulate
    overhead_per_step = overhead
    if accumulate > 1:
        overhead_per_step = _time_step(trial, *[one_pair] * accumulate).wall
    typical: list[tuple[int, _StepTimes]] = []
    while time.monotonic() - began < _ENOUGH_SECONDS:
        started = time.monotonic()
        batch = next(sample.batches, None)
        if batch is None:
            break
        made = time.monotonic() - started
        step = _time_step(trial, batch)
        padded = batch.src.numel() + batch.tgt_in.numel()
        typical.append((padded, _StepTimes(made + step.wall, made + step.cpu)))
    measured = typical or measured
    tokens = sum(padded for padded, _ in measured)
    seconds = sum(times.wall for _, times in measured)
    per_token = max(0.0, seconds - len(measured) * overhead) / tokens
    tokens_per_step = sum(sample.padded_tokens) / (trainer.ranks.size * trainer.steps_per_epoch)
    steps_left = trainer.total_steps - trainer.step
    at_this_load = steps_left * (overhead_per_step + tokens_per_step * per_token)
    at_this_load += count_validations(trainer) * time_validation()
    cpu_share = sum(times.cpu for _, times in measured) / seconds
    alone = at_this_load * (cpu_share if cpu_share < _LOADED else 1.0)
    return Forecast(at_this_load, alone, memory)


def count_validations(trainer: Trainer) -> int:
    """Return how many validations are left, unless patience ends the training."""
    every = trainer.config.validate_every or trainer.steps_per_epoch
    return -(-trainer.total_steps // every) - trainer.step // every


class _StepTimes(NamedTuple):
    """Seconds of a step: wall time, and CPU time of this thread."""

    wall: float
    cpu: float


def _time_step(trial: Trainer, *batches: Batch) -> _StepTimes:
    started, computed = time.monotonic(), time.thread_time()
    trial.try_step([*batches])
    on_gpu = trial.device.type != "cpu"
    synchronize(trial.device)
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


class Numbers(NamedTuple):
    """How many numbers, of four bytes, a training holds at least."""

    weights: int  # those of the moving average included
    gradients: int
    state: int  # the optimizer's


def count_numbers(model: Transformer, config: Config) -> Numbers:
    """Count what a training of ``model`` holds, of which ``training.freeze`` is frozen."""
    copies = 1 + config.training.has_average + (config.training.init_share is not None)
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    return Numbers(
        copies * count_parameters(model),
        sum(weight.numel() for weight in trained.values()),
        sum(
            weight.numel() * len(kind_of(config.training, name, weight).state)
            for name, weight in trained.items()
        ),
    )


def check_memory(
    config: Config, sizes: tuple[int, int], device: torch.device, ranks: Ranks
) -> None:
    """Check that weights, gradients and optimizer state fit into memory.

    Activations are not counted: a batch that does not fit is split into micro-batches. ``sizes``
    are the vocabularies'. On a CPU, the processes of one machine share its memory.
    """
    model = build_shapes(config.model, *sizes, PAD_ID)
    model.freeze(config.training.freeze)
    numbers = count_numbers(model, config)
    sharing = _processes_sharing(device, ranks)
    needed, there = sharing * _FLOAT * sum(numbers), memory_of(device)
    if needed <= there:
        return
    has_average = config.training.has_average
    owner = "the GPU" if device.type == "cuda" else "this machine"
    average = " and an average" if has_average else ""
    shared = f" in {sharing} processes" if sharing > 1 else ""
    state = OPTIMIZERS[config.training.optimizer].state_label
    raise ConfigError(
        f"model: its {count_parameters(model):,} weights take at least "
        f"{size(needed)} to train{shared} (with gradients, {state}{average}), and "
        f"{owner} has {size(there)} of memory; "
        "lower d_model, d_ff, the number of layers or the vocabulary"
    )


def checkpoint_bytes(config: Config, model: Transformer) -> int:
    """Return the bytes of the checkpoints that a run keeps: the newest ones, and the best."""
    numbers = count_numbers(model, config)
    return (config.training.keep_last + 1) * _FLOAT * (numbers.weights + numbers.state)


def trial_fits(trainer: Trainer, config: Config) -> bool:
    """Return whether a forecast's copy of the trainer fits into memory beside it."""
    numbers = count_numbers(trainer.model, config)
    held = numbers.weights + (numbers.state if trainer.step else 0)
    sharing = _processes_sharing(trainer.device, trainer.ranks)
    return sharing * _FLOAT * (held + sum(numbers)) <= memory_of(trainer.device)


def _processes_sharing(device: torch.device, ranks: Ranks) -> int:
    """Return how many processes share the device's memory: on a CPU, those of one machine."""
    return ranks.size // ranks.machines if device.type == "cpu" else 1


def memory_of(device: torch.device) -> int:
    """Return the bytes of memory of a GPU, or of the machine or the process' cgroup."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    # A list, as most machines have no limit, and min() of one number is an error.
    return min([psutil.virtual_memory().total, *cgroup_limits()])


def cgroup_limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """Yield the memory limits of this process' cgroups, versions 2 and 1.

    ``own`` lists them, and they are mounted at ``root``. A container may see its own as the root.
    """
    lines = own.read_text().splitlines() if own.is_file() else []
    for number, controllers, path in (line.split(":", 2) for line in lines):
        base, name = root, "memory.max"
        if number != "0":
            if "memory" not in controllers.split(","):
                continue
            base, name = root / "memory", "memory.limit_in_bytes"
        group = base / path.lstrip("/")
        for directory in (group, *group.parents):
            if directory.is_relative_to(base) and (directory / name).is_file():
                limit = (directory / name).read_text().strip()
                if limit.isdigit():  # not 'max'
                    yield int(limit)


# --- arithmetic -----------------------------------------------------------------------------------


_FORWARD_AND_BACKWARD = 3
"""Backward makes two products of each of forward's: one for the input, one for the weights."""


def training_flops(
    config: ModelConfig, vocab: int, src_lengths: Sequence[int], tgt_lengths: Sequence[int]
) -> float:
    """Floating-point operations of the matrix products of one update; padding is never counted.

    A token costs 2 operations forward and 4 backward for each weight of the matrices it passes;
    attention's two products cost 2 * d_model forward and 4 * d_model backward each for every
    pair of positions that may attend. Embedding, normalisation, softmax, dropout, loss and
    optimizer are left out: they take time, but no work of matrix products.

    Args:
        config: sizes of the model.
        vocab: entries of the target vocabulary.
        src_lengths: source tokens of each pair, the end mark counted.
        tgt_lengths: target tokens of each pair, the end mark counted.
    """
    src_weights, tgt_weights = _weights_of_a_token(config, vocab)
    products = src_weights * sum(src_lengths) + tgt_weights * sum(tgt_lengths)
    products += 2 * config.d_model * _attended(config, src_lengths, tgt_lengths)
    return 2.0 * _FORWARD_AND_BACKWARD * products


def _weights_of_a_token(config: ModelConfig, vocab: int) -> tuple[int, int]:
    """Matrix weights that a source and a target token pass through, in all layers."""
    projection = config.d_model**2
    feed_forward = (3 if config.activation == "swiglu" else 2) * config.d_model * config.d_ff
    # The memory's keys and values are made of source tokens, by the decoder's matrices.
    src = config.num_encoder_layers * (4 * projection + feed_forward)
    src += config.num_decoder_layers * 2 * projection
    tgt = config.num_decoder_layers * (6 * projection + feed_forward)
    tgt += config.d_model * vocab
    return src, tgt


def _attended(config: ModelConfig, src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> int:
    """Pairs of a query and a key that it may attend to, in all layers."""
    within_src = sum(src * src for src in src_lengths)
    within_tgt = sum(tgt * (tgt + 1) // 2 for tgt in tgt_lengths)  # up to itself
    across = sum(src * tgt for src, tgt in zip(src_lengths, tgt_lengths, strict=True))
    encoder = config.num_encoder_layers * within_src
    return encoder + config.num_decoder_layers * (within_tgt + across)
