"""What a training takes of its machine: memory, and the precision that it computes in."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from torch import Tensor

from transformer_cli.base.errors import ConfigError, size
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.model.device import choose_precision
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import (
    EncoderLayer,
    Transformer,
    build_shapes,
    count_parameters,
)
from transformer_cli.runs.metrics_log import SESSION_KIND, Record
from transformer_cli.text.vocabulary import PAD_ID, SPECIALS
from transformer_cli.training.optimizer import kind_of

FLOAT = 4  # bytes
SMALLEST = (len(SPECIALS), len(SPECIALS))
"""The smallest vocabulary sizes, while the real ones are unknown."""


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
    sharing = processes_sharing(device, ranks)
    needed, there = sharing * FLOAT * sum(numbers), memory_of(device)
    if needed <= there:
        return
    has_average = config.training.has_average
    owner = "the GPU" if device.type == "cuda" else "this machine"
    average = " and an average" if has_average else ""
    shared = f" in {sharing} processes" if sharing > 1 else ""
    raise ConfigError(
        f"model: its {count_parameters(model):,} weights take at least "
        f"{size(needed)} to train{shared} (with gradients, the optimizer's state{average}), and "
        f"{owner} has {size(there)} of memory; "
        "lower d_model, d_ff, the number of layers or the vocabulary"
    )


def processes_sharing(device: torch.device, ranks: Ranks) -> int:
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


# --- precision ------------------------------------------------------------------------------------

WORTHWHILE = 1.15
"""Gain by bfloat16; less is not worth the rounding, and may be noise of the machine."""
_ROUNDS = 5
_SENTENCES, _TOKENS = 64, 20


def choose_training_precision(
    name: PrecisionName,
    device: torch.device,
    ranks: Ranks,
    records: Iterable[Record] = (),
    say: Callable[[str], object] = lambda _: None,
) -> torch.dtype:
    """Return the compute dtype of a training that asks for ``name``; all ranks get the same.

    On a CPU 'auto' is what the run was trained with so far, and for a new run bfloat16 if a short
    measurement shows that it is faster here, which ``say`` gets. Elsewhere see
    ``choose_precision``.
    """
    if name != "auto" or device.type != "cpu":
        return choose_precision(name, device)
    earlier = [record.get("precision") for record in records if record["kind"] == SESSION_KIND]
    if earlier:
        if earlier[-1] != "bfloat16":
            return torch.float32
        if not has_bfloat16():
            say(
                "precision auto: bfloat16, as the run began; this processor emulates it, so "
                "float32 is faster"
            )
        return torch.bfloat16
    (gain,) = ranks.sum([measure_gain() if ranks.is_main else 0.0])
    if gain < WORTHWHILE:
        return torch.float32
    say(f"precision auto: bfloat16, {gain:.1f} times as fast as float32 here")
    return torch.bfloat16


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16, instead of emulating it."""
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(is_supported())


def measure_gain() -> float:
    """Return how many times as fast as in float32 an encoder layer trains in bfloat16 here.

    It is 0 where the processor has no bfloat16.
    """
    if not has_bfloat16():
        return 0.0
    with torch.random.fork_rng(devices=[]):
        layer = EncoderLayer(ModelConfig(d_model=256, d_ff=1024, num_heads=4))
        x = torch.randn(_SENTENCES, _TOKENS, 256)
        mask = torch.ones(_SENTENCES, 1, 1, _TOKENS, dtype=torch.bool)
        dtypes = torch.float32, torch.bfloat16
        # By turns, and the fastest of each: other processes take their share of the cores.
        rounds = [[_time_step(layer, x, mask, dtype) for dtype in dtypes] for _ in range(_ROUNDS)]
    float32, bfloat16 = (min(of_round[place] for of_round in rounds) for place in (0, 1))
    return float32 / bfloat16


def _time_step(layer: EncoderLayer, x: Tensor, mask: Tensor, precision: torch.dtype) -> float:
    start = time.perf_counter()
    with autocast(x.device, precision):
        y = layer(x, mask)
    y.float().sum().backward()
    return time.perf_counter() - start
