"""When CTranslate2 searches, and how its translators are loaded."""

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

from transformer_cli.base.errors import CheckpointError, RunError, UsageError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks, count_cores
from transformer_cli.config.choices import MOST_THREADS, DeviceName
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.ctranslate2 import converted
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import open_trained_model
from transformer_cli.text.tokenizer import load_tokenizers, searches_again

Translator = TextTranslator[CTranslate2Engine]


def _device_name(device: DeviceName) -> str:
    """Return what ``device`` stands for, without torch where no GPU can be there."""
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


class CTranslate2:
    """The engine, as the manifest names it; see ``inference.loading.Engine``."""

    def load_settings(self, run: RunDirectory) -> Config | None:
        if not _is_exported(run):
            return None
        if not (run.path / converted.SETTINGS).is_file():
            raise RunError(
                f"{run.path}: has a model of CTranslate2's, but no {converted.SETTINGS}; make it "
                "by: transformer-cli export RUN DIR --format ctranslate2"
            )
        return load_config(run.path / converted.SETTINGS)

    def choose(
        self,
        run: RunDirectory,
        options: ComputeOptions,
        needing_torch: Sequence[str],
        prefers_torch: bool,
    ) -> bool:
        """Return whether it searches.

        With 'auto' it does on a CPU: in float32, where it writes torch's text, and in int8, which
        torch has not.
        """
        is_asked = options.engine == "ctranslate2"
        if options.precision == "int8":
            if _device_name(options.device) != "cpu":
                raise UsageError(
                    "`precision` int8: is for CPUs; use `device` cpu, or leave out `precision`"
                )
            is_asked = True
        if not is_asked:
            needs_torch = prefers_torch or bool(needing_torch)
            is_asked = _is_exported(run) or (not needs_torch and _is_as_good(run, options))
        if is_asked and needing_torch:
            needing = " and ".join(needing_torch)
            if _is_exported(run):
                raise UsageError(
                    f"{run.path}: is a model of CTranslate2's, which does not support {needing}; "
                    "leave it out, or name the run that it was exported from"
                )
            by = "`precision` int8" if options.precision == "int8" else "`engine` ctranslate2"
            raise UsageError(f"{by}: does not support {needing}; leave out {by}, or {needing}")
        return is_asked

    def load(
        self,
        run: RunDirectory,
        checkpoint: str,
        options: ComputeOptions,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> Translator:
        """Load an exported model, or convert a run's and keep that; see ``open_converted``."""
        if (settings := self.load_settings(run)) is not None:
            return _load_exported(run, settings, options, ranks)
        opened = open_trained_model(run, checkpoint)
        config, tokenizers = opened.config, opened.tokenizers
        precision = _choose_precision(options)
        where = _choose_device(options, ranks)
        with ThreadPoolExecutor(max_workers=1) as beside:
            # What the manifest says of the weights has to be true, or a run could claim to have
            # those of another.
            verified = beside.submit(opened.checkpoint.verify_file, MODEL)
            engine = converted.open_converted(
                opened,
                precision,
                lambda path: CTranslate2Engine.open(
                    path, config.model, tokenizers, *where, precision
                ),
            )
            verified.result()
        return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=opened.sum)


ENGINE = CTranslate2()


def _load_exported(
    run: RunDirectory, config: Config, options: ComputeOptions, ranks: Ranks
) -> Translator:
    for path in run.path.iterdir():
        if not path.is_dir():
            open_regular(path).close()  # CTranslate2 would wait for a pipe
    tokenizers = load_tokenizers(run.tokenizer)
    sums = converted.verified_sums(run.path)
    if sums is None:
        raise CheckpointError(
            f"{run.path}: its files are not those whose SHA-256 {converted.SUMS} records; export "
            "it again"
        )
    engine = CTranslate2Engine.open(
        run.path,
        config.model,
        tokenizers,
        *_choose_device(options, ranks),
        options.precision,
        check_loads=partial(converted.check_usable, run.path, sums),
    )
    return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=sums["model.bin"])


def _is_exported(run: RunDirectory) -> bool:
    return run.only_engine is not None and run.only_engine.name == "ctranslate2"


def _is_as_good(run: RunDirectory, options: ComputeOptions) -> bool:
    """Return whether CTranslate2 is here, and writes torch's text on a CPU."""
    if options.precision == "bfloat16":
        return False  # the engines round at other places
    if not _writes_same_text(run.load_config(), options.beam_size):
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


def _choose_precision(options: ComputeOptions) -> Literal["float32", "bfloat16", "int8"]:
    if options.precision != "auto":
        return options.precision
    if _device_name(options.device) == "cpu":
        return "float32"
    import torch

    from transformer_cli.model.device import choose_device, choose_precision

    precision = choose_precision("auto", choose_device(options.device))
    return "bfloat16" if precision == torch.bfloat16 else "float32"


def _choose_device(options: ComputeOptions, ranks: Ranks) -> tuple[tuple[str, int], int]:
    """Return the device with the number of the GPU, and the threads: given, or what torch takes."""
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
