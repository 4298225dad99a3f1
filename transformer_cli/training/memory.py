"""Compare the memory that a training needs at least with the memory of the device."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import torch
from torch import nn

from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError
from transformer_cli.model.transformer import Transformer, count_parameters
from transformer_cli.ranks import Ranks
from transformer_cli.text.vocabulary import PAD_ID, SPECIALS
from transformer_cli.training.trainer import Trainer
from transformer_cli.training.units import size

_FLOAT = 4
SMALLEST = (len(SPECIALS), len(SPECIALS))
"""The smallest vocabulary sizes, while the real ones are unknown."""


def check_memory(
    config: Config, sizes: tuple[int, int], device: torch.device, ranks: Ranks
) -> None:
    """Check that weights, gradients and optimizer state fit into memory.

    Activations are not counted: a batch that does not fit is split into chunks.

    Args:
        config: the experiment's settings.
        sizes: vocabulary sizes of source and target.
        device: where to train.
        ranks: the processes; on a CPU, those of one machine share its memory.

    Raises:
        ConfigError: they do not.
    """
    weights, trained = count_weights(config, sizes), count_weights(config, sizes, True)
    sharing = _processes_sharing(device, ranks)
    needed, there = sharing * bytes_held(config, weights, trained), memory_of(device)
    if needed > there:
        owner = "the GPU" if device.type == "cuda" else "this machine"
        average = " and an average" if config.training.ema_decay is not None else ""
        shared = f" in {sharing} processes" if sharing > 1 else ""
        raise ConfigError(
            f"model: its {weights:,} weights take at least {size(needed)} to train{shared} (with "
            f"gradients, Adam's two moments{average}), and "
            f"{owner} has {size(there)} of memory; "
            "lower d_model, d_ff, the number of layers or the vocabulary"
        )


def bytes_held(config: Config, weights: int, trained: int) -> int:
    """Return the bytes of weights, gradients, Adam's moments and the EMA, if there is one.

    Args:
        config: the experiment's settings.
        weights: number of weights.
        trained: how many of them are not frozen.
    """
    copies = 2 if config.training.ema_decay is not None else 1
    return _FLOAT * (copies * weights + 3 * trained)


def checkpoint_bytes(config: Config, model: Transformer) -> int:
    """Return the bytes of the checkpoints that a run keeps: the newest ones, and the best."""
    weights, trained = count_parameters(model), count_parameters(model, trained_only=True)
    # They have what is held in memory but for the gradients.
    return (config.training.keep_last + 1) * (
        bytes_held(config, weights, trained) - _FLOAT * trained
    )


def trial_fits(trainer: Trainer, config: Config) -> bool:
    """Return whether a forecast's copy of the trainer fits into memory beside it."""
    weights = count_parameters(trainer.model)
    trained = count_parameters(trainer.model, trained_only=True)
    copies = 1 if trainer.eval_model is trainer.model else 2
    moments = 2 if trainer.step else 0
    held = _FLOAT * (copies * weights + moments * trained)
    needed = _processes_sharing(trainer.device, trainer.ranks) * (
        held + bytes_held(config, weights, trained)
    )
    return needed <= memory_of(trainer.device)


def _processes_sharing(device: torch.device, ranks: Ranks) -> int:
    """Return how many processes share the device's memory: on a CPU, those of one machine."""
    return ranks.size // ranks.machines if device.type == "cpu" else 1


def count_weights(config: Config, sizes: tuple[int, int], trained_only: bool = False) -> int:
    """Count the model's weights, or those that are not frozen, without allocating them."""
    model = config.model
    one_layer = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    with torch.device("meta"):
        small = Transformer(model.model_copy(update=one_layer), *sizes, PAD_ID)
    small.freeze(config.training.freeze)
    stacks: list[tuple[int, nn.Module]] = [
        (model.num_encoder_layers, small.encoder),
        (model.num_decoder_layers, small.decoder),
    ]
    return count_parameters(small, trained_only) + sum(
        (layers - 1) * count_parameters(stack, trained_only) for layers, stack in stacks
    )


def memory_of(device: torch.device) -> int:
    """Return the bytes of memory of a GPU, or of the machine or the process' cgroup."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    return min(psutil.virtual_memory().total, *cgroup_limits())


def cgroup_limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """Yield the memory limits of this process' cgroups, versions 2 and 1.

    Args:
        own: lists the process' cgroups.
        root: where cgroups are mounted. A container may see its own cgroup as the root.
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
