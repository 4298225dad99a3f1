"""Translators of trained runs and of exported models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from transformer_cli.config.choices import EngineName, PrecisionName, Quantization
from transformer_cli.config.yaml import load_config
from transformer_cli.errors import RunError, UsageError
from transformer_cli.files import sha256
from transformer_cli.inference.ctranslate2_engine import SETTINGS, CTranslate2Engine
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translator import TextTranslator, TorchTranslator
from transformer_cli.model.device import choose_precision
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import TrainedModel, load_trained_model
from transformer_cli.text.tokenizer import fingerprint, load_tokenizers

Export = Callable[[RunDirectory, TrainedModel, Quantization, Path], None]
"""``write_ctranslate2`` of the room export, which this one does not import."""


def choose_engine(
    run: RunDirectory, name: EngineName
) -> type[TorchEngine] | type[CTranslate2Engine]:
    """Return the engine called ``name``; 'auto' is torch's unless the model was exported."""
    if name == "ctranslate2" or (name == "auto" and run.is_for_ctranslate2):
        return CTranslate2Engine
    return TorchEngine


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


def load_ctranslate2_translator(
    run: RunDirectory,
    checkpoint: str,
    device: torch.device,
    precision: PrecisionName,
    export: Export,
) -> TextTranslator[CTranslate2Engine]:
    """Load an exported model, or export a run's for the occasion; it gets torch's threads.

    Args:
        run: the directory of either.
        checkpoint: of a run; an exported model has one only.
        device: where to compute.
        precision: of matrix products; 'auto' is the run's choice, or that of the exported weights.
        export: writes a run's model for CTranslate2.

    Raises:
        UsageError: the device cannot compute like that.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: CTranslate2 is not installed.
    """
    if run.is_for_ctranslate2:
        return _load_exported(run, device, precision)
    trained = load_trained_model(run, checkpoint)
    quantization: Quantization = (
        "bfloat16" if choose_precision(precision, device) == torch.bfloat16 else "float32"
    )
    # Less than a second for 30 million weights, and a run may be on a disk that is read-only.
    with TemporaryDirectory() as directory:
        export(run, trained, quantization, Path(directory))
        translator = _load_exported(RunDirectory(Path(directory)), device, precision)
    return replace(translator, checkpoint=trained.sum)


def _load_exported(
    exported: RunDirectory, device: torch.device, precision: PrecisionName
) -> TextTranslator[CTranslate2Engine]:
    directory = exported.path
    if not (directory / SETTINGS).is_file():
        raise RunError(
            f"{directory}: has a model of CTranslate2's, but no {SETTINGS}; make it by: "
            "transformer-cli export RUN DIR --format ctranslate2"
        )
    config = load_config(directory / SETTINGS)
    tokenizers = load_tokenizers(exported.tokenizer)
    threads = torch.get_num_threads()
    engine = CTranslate2Engine.open(directory, config.model, tokenizers, device, precision, threads)
    checkpoint = sha256(directory / "model.bin")
    return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=checkpoint)
