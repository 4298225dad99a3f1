"""Translators of trained runs and of exported models."""

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from transformer_cli.base.errors import CheckpointError, RunError, UsageError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks, count_cores
from transformer_cli.config.choices import (
    MOST_THREADS,
    DeviceName,
    EngineName,
    Quantization,
    SearchPrecisionName,
)
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.ctranslate2.engine import (
    SETTINGS,
    SUMS,
    CTranslate2Engine,
    check_usable,
    open_converted,
    verified_sums,
)
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import OpenedModel, load_weights_of, open_trained_model
from transformer_cli.text.tokenizer import load_tokenizers, searches_again


@dataclass(frozen=True)
class ComputeOptions:
    """How a model is to search: the options of these names.

    The beam size decides which engine is as good; ``TextTranslator.with_search`` sets it.
    """

    engine: EngineName = "auto"
    device: DeviceName = "auto"
    precision: SearchPrecisionName = "auto"
    threads: int | None = None
    beam_size: int | None = None


def load_translator(
    run: RunDirectory,
    checkpoint: str,
    options: ComputeOptions,
    ranks: Ranks = SINGLE_PROCESS,
    others: Sequence[RunDirectory] = (),
) -> TextTranslator[SearchEngine]:
    """Load a run, or a model as it is shared or exported, with the engine of ``choose_engine``.

    ``checkpoint`` is 'best', 'last', 'average' or a path; ``others`` make an ensemble with the run.

    Raises:
        UsageError: the options do not go together, or the device cannot compute like that.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: CTranslate2 is asked for, and is not installed.
    """
    if choose_engine(run, options, ["`ensemble`"] if others else []) == "ctranslate2":
        return load_ctranslate2_translator(run, checkpoint, options, ranks)
    # Torch takes a second, which CTranslate2 does without.
    from transformer_cli.inference.torch_engine import load_torch_translator
    from transformer_cli.model.device import choose_device, choose_precision, use_threads

    assert options.precision != "int8"
    use_threads(options.threads)
    device = choose_device(options.device, ranks)
    precision = choose_precision(options.precision, device)
    return load_torch_translator(run, checkpoint, device, precision, others)


def load_settings(run: RunDirectory) -> Config:
    """Return the settings of a run, or of a model as it is shared or exported.

    Raises:
        ConfigError, RunError: it has none, or they are invalid.
    """
    if not run.is_for_ctranslate2:
        return run.load_config()
    if not (run.path / SETTINGS).is_file():
        raise RunError(
            f"{run.path}: has a model of CTranslate2's, but no {SETTINGS}; make it by: "
            "transformer-cli export RUN DIR --format ctranslate2"
        )
    return load_config(run.path / SETTINGS)


# --- which engine ---------------------------------------------------------------------------------


def choose_engine(
    run: RunDirectory,
    options: ComputeOptions,
    needing_torch: Sequence[str] = (),
    prefers_torch: bool = False,
) -> Literal["torch", "ctranslate2"]:
    """Return the name of the engine to search with; 'auto' is CTranslate2 where it is as good.

    That is on a CPU: in float32, where it writes the same text; and in int8, which torch has not.

    Args:
        run: a run, or a model as it is shared or exported.
        options: the user's.
        needing_torch: options given that CTranslate2 cannot serve.
        prefers_torch: whether scores are asked for, which CTranslate2 computes otherwise.

    Raises:
        UsageError: int8 is asked for where there is none, or the options do not go together.
        ConfigError, RunError: there is no run, or it is damaged.
    """
    engine = options.engine
    if options.precision == "int8":
        if engine == "torch":
            raise UsageError("`precision` int8: `engine` torch has no int8; leave one of them out")
        if _device_name(options.device) != "cpu":
            raise UsageError(
                "`precision` int8: is for CPUs; use `device` cpu, or leave out `precision`"
            )
        engine = "ctranslate2"
    if engine == "auto":
        needs_torch = prefers_torch or bool(needing_torch)
        is_fit = run.is_for_ctranslate2 or (not needs_torch and _is_as_good(run, options))
        engine = "ctranslate2" if is_fit else "torch"
    if engine == "ctranslate2" and needing_torch:
        needing = " and ".join(needing_torch)
        if run.is_for_ctranslate2:
            raise UsageError(
                f"{run.path}: is a model of CTranslate2's, which does not support {needing}; leave "
                "it out, or name the run that it was exported from"
            )
        by = "`precision` int8" if options.precision == "int8" else "`engine` ctranslate2"
        raise UsageError(f"{by}: does not support {needing}; leave out {by}, or {needing}")
    return engine


def _is_as_good(run: RunDirectory, options: ComputeOptions) -> bool:
    """Return whether CTranslate2 is here, and writes torch's text on a CPU."""
    if options.precision == "bfloat16":
        return False  # the engines round at other places
    config = run.load_config()
    if not _writes_same_text(config, options.beam_size):
        return False
    # Its wheels compute on a GPU by CUDA 12's libraries, and torch may bring CUDA 13's.
    if _device_name(options.device) != "cpu":
        return False
    try:
        import ctranslate2  # noqa: F401
    except ImportError:  # there are platforms that it is not made for, or cannot be loaded on
        return False
    return True


def _writes_same_text(config: Config, beam_size: int | None) -> bool:
    """Return whether CTranslate2's translations are those of torch, in float32."""
    # Its table of positions may be too short.
    if config.model.positions != "learned" and config.decoding.max_length_ratio > 2:
        return False
    # Its probabilities leave out tokens that are never written. One of them, <unk>, is likely where
    # training targets had it; then the scores that beam search compares are others. They have none
    # only where any text can be spelled in bytes.
    tokenizer = config.tokenizer
    spells_all = (
        isinstance(tokenizer, SentencePieceConfig)
        and not tokenizer.files
        and tokenizer.byte_fallback
    )
    is_greedy = (beam_size or config.decoding.beam_size) == 1 and not searches_again(config)
    return spells_all or (is_greedy and tokenizer.kind != "words")


def _device_name(device: DeviceName) -> str:
    """Return what ``--device`` stands for, without torch where no GPU can be there."""
    if device != "auto":
        return device
    may_have_gpu = sys.platform not in ("linux", "darwin")
    if sys.platform == "linux":  # is there a driver of a GPU that torch might use?
        try:
            ctypes.CDLL("libcuda.so.1")
            may_have_gpu = True
        except OSError:
            may_have_gpu = Path("/dev/kfd").exists()  # AMD's
    if not may_have_gpu:
        return "cpu"
    from transformer_cli.model.device import choose_device

    return choose_device(device).type


def _choose_precision(options: ComputeOptions) -> Literal["float32", "bfloat16", "int8"]:
    if options.precision != "auto":
        return options.precision
    if _device_name(options.device) == "cpu":
        return "float32"
    import torch

    from transformer_cli.model.device import choose_device, choose_precision

    precision = choose_precision("auto", choose_device(options.device))
    return "bfloat16" if precision == torch.bfloat16 else "float32"


# --- CTranslate2 ----------------------------------------------------------------------------------


def load_ctranslate2_translator(
    run: RunDirectory, checkpoint: str, options: ComputeOptions, ranks: Ranks = SINGLE_PROCESS
) -> TextTranslator[CTranslate2Engine]:
    """Load an exported model, or convert a run's and keep that; see ``open_converted``.

    Raises:
        UsageError: the device cannot compute like that.
        ConfigError, RunError, TokenizerError, CheckpointError: something is missing or damaged.
        MissingExtraError: CTranslate2 is not installed.
    """
    if run.is_for_ctranslate2:
        return _load_exported(run, options, ranks)
    opened = open_trained_model(run, checkpoint)
    config, tokenizers = opened.config, opened.tokenizers
    precision = _choose_precision(options)
    settings = config.model, tokenizers, *_choose_device(options, ranks)
    with ThreadPoolExecutor(max_workers=1) as beside:
        # What the manifest says of the weights has to be true, or a run could claim to have those
        # of another.
        verified = beside.submit(opened.checkpoint.verify_weights)
        engine = open_converted(
            opened,
            precision,
            _write_ctranslate2_model,
            lambda path: CTranslate2Engine.open(path, *settings, precision),
        )
        verified.result()
    return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=opened.sum)


def _write_ctranslate2_model(opened: OpenedModel, quantization: Quantization, path: Path) -> None:
    from transformer_cli.extensions.ctranslate2.spec import write_model  # imports torch

    write_model(load_weights_of(opened), quantization, path)


def _load_exported(
    exported: RunDirectory, options: ComputeOptions, ranks: Ranks
) -> TextTranslator[CTranslate2Engine]:
    directory, config = exported.path, load_settings(exported)
    for path in directory.iterdir():
        if not path.is_dir():
            open_regular(path).close()  # CTranslate2 would wait for a pipe
    tokenizers = load_tokenizers(exported.tokenizer)
    sums = verified_sums(directory)
    if sums is None:
        raise CheckpointError(
            f"{directory}: its files are not those whose SHA-256 {SUMS} records; export it again"
        )
    engine = CTranslate2Engine.open(
        directory,
        config.model,
        tokenizers,
        *_choose_device(options, ranks),
        options.precision,
        check_loads=partial(check_usable, directory, sums),
    )
    return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=sums["model.bin"])


def _choose_device(options: ComputeOptions, ranks: Ranks) -> tuple[tuple[str, int], int]:
    """Return the device, as 'cpu' say, with the number of the GPU, and the number of CPU threads.

    Threads are those asked for, or torch's, or what torch would take.
    """
    device = ("cpu", 0)
    if _device_name(options.device) != "cpu":
        from transformer_cli.model.device import choose_device

        chosen = choose_device(options.device, ranks)
        device = (chosen.type, chosen.index or 0)
    if options.threads is not None:
        return device, options.threads
    if torch := sys.modules.get("torch"):
        return device, int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    given = int(wanted) if re.fullmatch("[0-9]{1,9}", wanted) else 0
    return device, min(given, MOST_THREADS) or count_cores()
