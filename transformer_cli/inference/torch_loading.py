"""Translators with the torch model, of runs and of models as they are shared."""

import torch

from transformer_cli.inference.torch_engine import TorchEngine, TorchTranslator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import load_trained_model


def load_torch_translator(
    run: RunDirectory, checkpoint: str, device: torch.device, precision: torch.dtype
) -> TorchTranslator:
    """Load a trained run, or a model as it is shared; see ``load_trained_model``."""
    trained = load_trained_model(run, checkpoint)
    return TextTranslator(
        TorchEngine(trained.model.to(device), precision),
        trained.tokenizers,
        trained.config,
        trained.config.decoding,
        checkpoint=trained.sum,
    )
