"""Translators with the torch model, of runs and of models as they are shared."""

from collections.abc import Sequence

import torch

from transformer_cli.errors import UsageError
from transformer_cli.inference.torch_engine import TorchEngine, TorchTranslator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.tokenizer import fingerprint


def load_torch_translator(
    run: RunDirectory,
    checkpoint: str,
    device: torch.device,
    precision: torch.dtype,
    others: Sequence[RunDirectory] = (),
) -> TorchTranslator:
    """Load a trained run, or a model as it is shared; see ``load_trained_model``.

    Args:
        run: its directory.
        checkpoint: 'best', 'last' or 'average' of each run, or a checkpoint's path.
        device: where to compute.
        precision: of matrix products.
        others: runs that make an ensemble with it; settings of search are those of ``run``.

    Raises:
        UsageError: runs do not go together in an ensemble.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    trained = load_trained_model(run, checkpoint)
    more = [_load_for_ensemble(other, checkpoint, run, trained) for other in others]
    models = [each.model.to(device) for each in more]
    return TextTranslator(
        TorchEngine(trained.model.to(device), precision, others=tuple(models)),
        trained.tokenizers,
        trained.config,
        trained.config.decoding,
        checkpoint="+".join(each.sum for each in (trained, *more)),
    )


def _load_for_ensemble(
    other: RunDirectory, checkpoint: str, run: RunDirectory, trained: TrainedModel
) -> TrainedModel:
    """Load a run that makes an ensemble with ``run``.

    Raises:
        UsageError: they do not go together.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
    """
    if checkpoint not in ("best", "last", "average"):
        raise UsageError(
            f"--checkpoint {checkpoint}: is of one run; with --ensemble, name best, last or average"
        )
    loaded = load_trained_model(other, checkpoint)
    if fingerprint(other.tokenizer) != fingerprint(run.tokenizer):
        raise UsageError(
            f"--ensemble {other.path}: its tokenizer is not that of {run.path}; runs of one "
            "configuration that differ in seed or sizes have the same"
        )
    models = [each.config.model for each in (trained, loaded)]
    if len({(each.positions, each.max_positions) for each in models}) > 1:
        raise UsageError(
            f"--ensemble {other.path}: its model.positions or model.max_positions are not those "
            f"of {run.path}"
        )
    return loaded
