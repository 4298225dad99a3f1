"""Trained models: loaded with settings and tokenizers, started from, and averaged."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.base.errors import CheckpointError, ConfigError, RunError, UsageError
from transformer_cli.base.files import sha256
from transformer_cli.config.differences import Difference, differences
from transformer_cli.config.origins import Origins
from transformer_cli.config.schema import Config
from transformer_cli.runs.checkpoint import (
    MANIFEST,
    Checkpoint,
    find_checkpoint,
    list_checkpoints,
    parse_step,
    save_average,
)
from transformer_cli.runs.directory import CONFIG, RunDirectory, is_run
from transformer_cli.runs.metrics_log import read_records, validations
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.tokenizer import fingerprint, have_same_tokenizers, load_tokenizers
from transformer_cli.text.vocabulary import PAD_ID

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from transformer_cli.model.transformer import Transformer


@dataclass(frozen=True)
class OpenedModel:
    """A trained model without its weights, which torch takes a second to load."""

    config: Config
    tokenizers: Tokenizers
    checkpoint: Checkpoint  # where the weights are
    sum: str  # SHA-256 of the file in it that records the weights' SHA-256
    tokenizer_sum: str  # fingerprint of the tokenizers


@dataclass(frozen=True)
class TrainedModel:
    """A trained model with its settings and tokenizers, on the CPU, in evaluation mode."""

    config: Config
    tokenizers: Tokenizers
    model: "Transformer"
    checkpoint: Path  # the directory of the weights
    sum: str  # as of ``OpenedModel``


def load_trained_model(run: RunDirectory, checkpoint: str) -> TrainedModel:
    """Load a checkpoint of a run, as ``find_checkpoint`` names it, or an exported model."""
    return load_weights_of(open_trained_model(run, checkpoint))


def open_trained_model(run: RunDirectory, checkpoint: str) -> OpenedModel:
    """Open what ``load_trained_model`` loads, without torch."""
    config = run.load_config()
    has_model = run.exported or list_checkpoints(run.checkpoints)
    if not run.tokenizer.is_dir() and not has_model:
        raise RunError(f"{run.path}: not trained yet; train first: transformer-cli train CONFIG")
    tokenizers = load_tokenizers(run.tokenizer)
    opened = open_checkpoint(run, checkpoint)
    recorded_in = run.exported.record if run.exported else opened.path / MANIFEST
    return OpenedModel(config, tokenizers, opened, sha256(recorded_in), fingerprint(run.tokenizer))


def load_weights_of(opened: OpenedModel) -> TrainedModel:
    """Load the weights of an opened model."""
    import torch

    from transformer_cli.model.transformer import build_model, build_shapes, check_fit, load_weights

    config, tokenizers, path = opened.config, opened.tokenizers, opened.checkpoint.path
    weights = opened.checkpoint.load_weights()
    sizes = tokenizers.src.size, tokenizers.tgt.size
    try:
        # Before memory is allocated for a model that its weights do not fit.
        check_fit(build_shapes(config.model, *sizes, PAD_ID), weights)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
    # A model is made with random weights first, which are not to touch the caller's generators.
    is_on = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = [torch.cuda.current_device()] if is_on else []
    with torch.random.fork_rng(devices):
        model = build_model(config.model, *sizes, PAD_ID, config.seed)
    load_weights(model, weights)
    return TrainedModel(config, tokenizers, model.eval(), path, opened.sum)


def open_checkpoint(run: RunDirectory, which: str) -> Checkpoint:
    """Open a checkpoint of a run, or an exported model's weights; see ``load_trained_model``."""
    exported = run.exported
    if exported is None:
        path = find_checkpoint(run.checkpoints, which)
        return Checkpoint.open(path, fingerprint(run.tokenizer))
    if which != "best":
        raise CheckpointError(
            f"`checkpoint` {which}: {run.path} is an exported model, which has its weights only; "
            "leave the option out"
        )
    return exported.open_weights()


def model_differences(old: Config, new: Config) -> list[Difference]:
    """Return the model settings that differ, dropout excluded."""
    return [
        diff
        for diff in differences(old, new)
        if diff.key.startswith("model.") and not diff.key.endswith("dropout")
    ]


def check_init(config: Config, run: RunDirectory, overwrite: bool) -> None:
    """Check, before anything is written, that ``run`` can start from ``config.init``.

    A run that resumes from a checkpoint no longer needs it.
    """
    if config.init is None or (list_checkpoints(run.checkpoints) and not overwrite):
        return
    source = RunDirectory(config.init)
    if source.path.resolve() == run.path.resolve():
        raise ConfigError(
            f"init: {source.path} is the run directory itself; choose another `run_dir`"
        )
    old = source.load_config()
    # A joint vocabulary reads both languages; separate ones are learned for one language each.
    languages = () if config.tokenizer.one_vocabulary else ("data.src_lang", "data.tgt_lang")
    keys = ("tokenizer.", *languages)
    tokenizer = [diff for diff in differences(old, config) if diff.key.startswith(keys)]
    differing = [*tokenizer, *model_differences(old, config)]
    if differing:
        listed = ", ".join(f"{diff.key} {diff.old}, not {diff.new}" for diff in differing)
        raise ConfigError(f"init: {source.path} has {listed}; take the same settings here")
    open_checkpoint(source, "best")


def describe_inherited_init(config: Config, origins: Origins, bases: Sequence[Path]) -> str | None:
    """Return a hint if settings build on a run's, one of ``bases``, but not on its weights."""
    base = next((base for base in bases if base.name == CONFIG and is_run(base.parent)), None)
    origin = origins.get("init")
    if base is None or (origin is not None and Path(origin[0].source) != base):
        return None
    weights = "random weights" if config.init is None else f"the weights of {config.init}"
    return (
        f"init: as in the base {base}, so training starts from {weights}; init: {base.parent} "
        "starts from that run's"
    )


# --- averages -------------------------------------------------------------------------------------


def average_runs(runs: Sequence[RunDirectory], last: int | None) -> tuple[Path, list[Path]]:
    """Average the weights of the ``last`` checkpoints, or of all, of one run or each of several.

    The mean of a training's last checkpoints often translates better than each of them (Junczys-
    Dowmunt et al. 2016, arXiv 1605.04809; Vaswani et al. 2017, section 6.1). Of several runs it
    needs the same initial weights; it goes into the first, whose lock the caller holds. Returned
    are its path and those of the averaged checkpoints.
    """
    first = runs[0]
    for other in runs[1:]:
        if differing := model_differences(first.load_config(), other.load_config()):
            listed = ", ".join(f"{diff.key} is {diff.old} and {diff.new}" for diff in differing)
            raise RunError(
                f"{first.path} and {other.path}: other models ({listed}); no average of them"
            )
        if not have_same_tokenizers(first.tokenizer, other.tokenizer):
            raise RunError(
                f"{first.path} and {other.path}: other tokenizers, so the same weights do not "
                "stand for the same words; no average of them"
            )
    newest = [(run, path) for run in runs for path in _newest_checkpoints(run, last)]
    checkpoints = [Checkpoint.open(path, fingerprint(run.tokenizer)) for run, path in newest]
    averaged = [path for _, path in newest]
    step = max(parse_step(path) or 0 for run, path in newest if run is first)
    state = {"step": step, "averaged": [path.as_posix() for path in averaged]}
    weights, tokenizer = mean_weights(checkpoints), fingerprint(first.tokenizer)
    return save_average(first.checkpoints, weights, state, tokenizer), averaged


def mean_weights(checkpoints: Iterable[Checkpoint]) -> dict[str, "Tensor"]:
    """Return the mean of each weight, in its dtype; one checkpoint at a time is in memory."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, tuple[torch.Size, torch.dtype]] = {}
    count = 0
    for checkpoint in checkpoints:
        weights = checkpoint.load_weights()
        found = {name: (weight.shape, weight.dtype) for name, weight in weights.items()}
        kinds = kinds or found
        if different := found.items() ^ kinds.items():
            raise CheckpointError(
                f"{checkpoint.path}: '{min(name for name, _ in different)}' is not alike in all "
                "checkpoints; average those of one model"
            )
        for name, weight in weights.items():
            sums[name] = weight.double() + sums.get(name, 0.0)
        count += 1
    return {name: (total / count).to(kinds[name][1]) for name, total in sums.items()}


def list_stops(run: RunDirectory) -> list[Path]:
    """Return the checkpoints of stops, by Ctrl-C say: neither validated nor due by save_every."""
    every = run.load_config().training.save_every
    records = read_records(run.metrics)
    if not records:  # a model of another program
        return []
    validated = {record["step"] for record in validations(records)}
    return [
        path
        for path in list_checkpoints(run.checkpoints)
        if (step := parse_step(path) or 0) not in validated and (every is None or step % every > 0)
    ]


def _newest_checkpoints(run: RunDirectory, last: int | None) -> list[Path]:
    stops = list_stops(run)
    run.check_not_exported()
    find_checkpoint(run.checkpoints, "last")  # or there is none
    paths = [path for path in list_checkpoints(run.checkpoints) if path not in stops]
    if not paths:
        raise CheckpointError(
            f"{run.checkpoints}: no validated checkpoint yet; resume the training"
        )
    wanted = last or len(paths)
    if len(paths) < wanted:
        raise UsageError(
            f"{run.path}: has {len(paths)} checkpoints, not {wanted}; leave `last` out to average "
            f"these, or train with training.keep_last={wanted}"
        )
    return paths[-wanted:]
