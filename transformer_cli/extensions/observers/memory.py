"""Check whether the weights, gradients and optimizer state of a training run fit into memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.messages import size
from transformer_cli.base.ranks import Ranks
from transformer_cli.config.schema import Config
from transformer_cli.model.transformer import Transformer, count_parameters
from transformer_cli.training.optimizer import kind_of

FLOAT = 4  # bytes


class Numbers(NamedTuple):
    """How many four-byte numbers training keeps in memory, at least."""

    weights: int  # including the moving average
    gradients: int
    state: int  # of the optimizer


def count_numbers(model: Transformer, config: Config) -> Numbers:
    """Count the numbers that training ``model`` keeps in memory; frozen weights need fewer."""
    # An extension's average may keep additional weights, for example the initial ones.
    copies = 1 + config.training.has_average + (config.training.average is not None)
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    return Numbers(
        copies * count_parameters(model),
        sum(weight.numel() for weight in trained.values()),
        sum(
            weight.numel() * len(kind_of(config.training, name, weight).state)
            for name, weight in trained.items()
        ),
    )


def check_memory(model: Transformer, config: Config, device: torch.device, ranks: Ranks) -> None:
    """Check that a model's weights, gradients and optimizer state fit into memory.

    ``model`` needs only shapes. Activations are not counted, because a batch that does not fit is
    split into micro-batches. On a CPU, the processes on one machine share its memory.

    Raises:
        ConfigError: they do not fit into memory.
    """
    model.freeze(config.training.freeze)
    sharing = processes_sharing(device, ranks)
    needed, there = sharing * FLOAT * sum(count_numbers(model, config)), memory_of(device)
    if needed <= there:
        return
    owner = "the GPU" if device.type == "cuda" else "this machine"
    average = " and an average" if config.training.has_average else ""
    shared = f" in {sharing} processes" if sharing > 1 else ""
    raise ConfigError(
        f"model: its {count_parameters(model):,} weights take at least "
        f"{size(needed)} to train{shared} (with gradients, the optimizer's state{average}), "
        f"but {owner} has {size(there)} of memory; "
        "lower d_model, d_ff, the number of layers or the vocabulary"
    )


def processes_sharing(device: torch.device, ranks: Ranks) -> int:
    """Return how many processes share a device's memory: on a CPU, all ranks on this machine."""
    return ranks.local_size if device.type == "cpu" else 1


def memory_of(device: torch.device) -> int:
    """Return the bytes of memory of a CUDA GPU, else of the machine, or a lower cgroup limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    # Use a list: most machines have no limit, and min() of a single number is an error.
    return min([psutil.virtual_memory().total, *cgroup_limits()])


def cgroup_limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """Yield the memory limits, in bytes, of this process's cgroups (versions 2 and 1).

    The file ``own`` lists the cgroups, which are mounted at ``root``. A container may see its own
    cgroup as the root.
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
