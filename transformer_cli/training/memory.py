"""What a training holds in memory at the least, against the memory that there is."""

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
from transformer_cli.training.summary import size
from transformer_cli.training.trainer import Trainer

_FLOAT = 4
SMALLEST = (len(SPECIALS), len(SPECIALS))
"""Sizes of vocabularies, while those of the text are not known."""


def check_memory(
    config: Config, sizes: tuple[int, int], device: torch.device, ranks: Ranks
) -> None:
    """Make sure that a training's weights and what belongs to them can be held at all.

    Activations are not counted: a batch that does not fit is worked off in parts.

    Args:
        config: the experiment's settings.
        sizes: of the vocabularies.
        device: where to train.
        ranks: who trains; on a CPU, those of one machine share its memory.

    Raises:
        ConfigError: they take more than the device has.
    """
    weights = count_weights(config, sizes)
    sharing = ranks.size // ranks.machines if device.type == "cpu" else 1
    needed, there = sharing * bytes_held(config, weights), memory_of(device)
    if needed > there:
        average = " and an average" if config.training.average_decay is not None else ""
        shared = f" in {sharing} processes" if sharing > 1 else ""
        raise ConfigError(
            f"model: its {weights:,} weights take at least {size(needed)} to train{shared} (with "
            f"gradients, Adam's two moments{average}), and "
            f"{'this machine' if device.type == 'cpu' else 'the GPU'} has {size(there)} of memory; "
            "lower d_model, d_ff, the number of layers or the vocabulary"
        )


def bytes_held(config: Config, weights: int) -> int:
    """Bytes of weights, gradients and Adam's two moments, and of the weights' average."""
    return (5 if config.training.average_decay is not None else 4) * _FLOAT * weights


def trial_fits(trainer: Trainer, config: Config) -> bool:
    """Whether there is memory for a forecast, which needs a whole trainer beside this one."""
    weights = count_parameters(trainer.model)
    copies = 1 if trainer.eval_model is trainer.model else 2
    moments = 2 if trainer.step else 0
    held = (copies + moments) * _FLOAT * weights
    return held + bytes_held(config, weights) <= memory_of(trainer.device)


def count_weights(config: Config, sizes: tuple[int, int]) -> int:
    """How many weights the model has, in a moment and without making them, however many."""
    model = config.model
    one_layer = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    with torch.device("meta"):
        small = Transformer(model.model_copy(update=one_layer), *sizes, PAD_ID)
    stacks: list[tuple[int, nn.Module]] = [
        (model.num_encoder_layers, small.encoder),
        (model.num_decoder_layers, small.decoder),
    ]
    return count_parameters(small) + sum(
        (layers - 1) * count_parameters(stack) for layers, stack in stacks
    )


def memory_of(device: torch.device) -> int:
    """Bytes of memory that there are for a process: a GPU's, or the machine's or its cgroup's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    return min(psutil.virtual_memory().total, *cgroup_limits())


def cgroup_limits(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """The limits on memory that hold for this process' control group, versions 2 and 1.

    Args:
        own: says which groups it is in.
        root: where groups are described. A container may see its own group there, under the name
            of the root.
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
