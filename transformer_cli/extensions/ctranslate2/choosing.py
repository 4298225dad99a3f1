"""When CTranslate2 searches; what it searches with is loaded only then."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.base.errors import RunError, UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.config.choices import DeviceName
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import searches_again

with lazy_imports():
    from transformer_cli.extensions.ctranslate2 import exported_models, loading

if TYPE_CHECKING:
    from transformer_cli.extensions.ctranslate2 import engine

SETTINGS = "settings.yaml"
"""The run's settings in an exported model's directory, which is no run's: it has no config.yaml."""


def device_name(device: DeviceName) -> str:
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
        if not (run.path / SETTINGS).is_file():
            raise RunError(
                f"{run.path}: has a model of CTranslate2's, but no {SETTINGS}; make it "
                "by: transformer-cli export RUN DIR --format ctranslate2"
            )
        return load_config(run.path / SETTINGS)

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
            if device_name(options.device) != "cpu":
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
        self, run: RunDirectory, checkpoint: str, options: ComputeOptions
    ) -> "TextTranslator[engine.CTranslate2Engine]":
        """Load an exported model, or convert a run's and keep that; see ``open_converted``."""
        if (settings := self.load_settings(run)) is not None:
            return exported_models.load_exported(run, settings, options)
        return loading.load_run(run, checkpoint, options)


ENGINE = CTranslate2()


def _is_exported(run: RunDirectory) -> bool:
    return run.only_engine is not None and run.only_engine.name == "ctranslate2"


def _is_as_good(run: RunDirectory, options: ComputeOptions) -> bool:
    """Return whether CTranslate2 is here, and writes torch's text on a CPU."""
    if options.precision == "bfloat16":
        return False  # the engines round at other places
    if not _writes_same_text(run.load_config(), options.beam_size):
        return False
    # Its wheels compute on a GPU by CUDA 12's libraries, and torch may bring CUDA 13's.
    if device_name(options.device) != "cpu":
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
    spells_all = isinstance(tokenizer, SentencePieceConfig) and tokenizer.byte_fallback
    is_greedy = (beam_size or config.decoding.beam_size) == 1 and not searches_again(config)
    return spells_all or (is_greedy and tokenizer.kind != "words")
