"""What searches for a translation: torch, or another program that the model is exported to."""

from collections.abc import Sequence
from pathlib import Path

import torch

from transformer_cli.config.choices import EngineName, PrecisionName
from transformer_cli.errors import UsageError
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
    needs_torch: Sequence[str] = (),
) -> Translator:
    """The translator of a trained run or of an exported model.

    Args:
        path: its directory.
        engine: what searches; 'auto' is torch, or CTranslate2 where the model is exported for it.
        checkpoint: 'best', 'last', 'average' or a checkpoint's path.
        device: where to compute.
        precision: of matrix products.
        needs_torch: options that were asked for and that no other engine has.

    Raises:
        UsageError: the choices do not go together.
        RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: CTranslate2 is asked for and not installed.
    """
    run = RunDirectory(path)
    if engine == "ctranslate2" or (engine == "auto" and run.is_for_ctranslate2):
        if needs_torch:
            raise UsageError(
                f"--engine ctranslate2: does not go with {' and '.join(needs_torch)}; leave that "
                "out, or translate a run with --engine torch"
            )
        return ctranslate2_translator(path, checkpoint, device, precision)
    return Translator.load(run, checkpoint, device, choose_precision(precision, device))
