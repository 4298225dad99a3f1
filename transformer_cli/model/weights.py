"""Weights by name, tied ones once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from transformer_cli.errors import CheckpointError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights, sharing memory with the model."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def check_fit(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Check that ``weights`` fit ``model``, which may be on the 'meta' device.

    Raises:
        CheckpointError: names or shapes differ.
    """
    own = weights_of(model)
    for name in sorted(own.keys() ^ weights.keys()):
        where = "the checkpoint" if name in own else "the model"
        raise CheckpointError(f"the checkpoint does not fit the model: {where} has no '{name}'")
    for name, weight in own.items():
        if weight.shape != weights[name].shape:
            raise CheckpointError(
                f"the checkpoint does not fit the model: '{name}' is "
                f"{tuple(weights[name].shape)}, the model's is {tuple(weight.shape)}"
            )


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy ``weights`` into ``model``.

    Raises:
        CheckpointError: names or shapes differ.
    """
    check_fit(model, weights)
    with torch.no_grad():
        for name, weight in weights_of(model).items():
            weight.copy_(weights[name])
