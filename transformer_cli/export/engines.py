"""What searches for a translation: torch, or another program that the model is exported to."""

from pathlib import Path

import torch

from transformer_cli.config.choices import EngineName, PrecisionName
from transformer_cli.export.ctranslate2 import ctranslate2_translator
from transformer_cli.inference.translator import Translator
from transformer_cli.model.device import choose_precision
from transformer_cli.runs.directory import RunDirectory


def load_translator(
    path: Path,
    engine: EngineName,
    checkpoint: str,
    device: torch.device,
    precision: PrecisionName,
) -> Translator:
    """The translator of a trained run or of an exported model.

    Args:
        path: its directory.
        engine: what searches; 'auto' is torch, or CTranslate2 where the model is exported for it.
        checkpoint: 'best', 'last', 'average' or a checkpoint's path.
        device: where to compute.
        precision: of matrix products.

    Raises:
        UsageError: the choices do not go together.
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: CTranslate2 is asked for and not installed.
    """
    run = RunDirectory(path)
    if engine == "ctranslate2" or (engine == "auto" and run.is_for_ctranslate2):
        return ctranslate2_translator(path, checkpoint, device, precision)
    return Translator.load(run, checkpoint, device, choose_precision(precision, device))
