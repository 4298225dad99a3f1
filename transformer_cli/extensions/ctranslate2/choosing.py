"""Decides whether CTranslate2 does the search; the search code is imported only if it does."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import lazy_imports
from transformer_cli.config.choices import DeviceName
from transformer_cli.config.decoding_schema import DecodingConfig
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import describe_codecs, find_codec

with lazy_imports():
    from transformer_cli.extensions.ctranslate2 import converted, exported_models

if TYPE_CHECKING:
    from transformer_cli.extensions.ctranslate2.engine import CTranslate2Translator

_FOLLOWED = {
    "beam_size": True,
    "length_penalty": True,
    "batch_tokens": True,
    "no_repeat_ngram_size": False,  # in a beam, what is forbidden changes the scores of the rest
    "max_length_ratio": True,
}
"""Maps supported search settings to whether they have exactly the same effect as in torch."""


class CTranslate2:
    """The engine that this extension's manifest names; see ``inference.loading.Engine``."""

    def load_settings(self, run: RunDirectory) -> Config:
        return exported_models.load_settings(run)

    def choose(
        self,
        run: RunDirectory,
        options: ComputeOptions,
        needing_torch: Sequence[str],
        prefers_torch: bool,
    ) -> bool:
        """Return whether CTranslate2 does the search instead of torch.

        With ``engine`` 'auto', it searches only on a CPU: in float32 if it writes the same text as
        torch, and always in int8, which torch does not support.

        Raises:
            UsageError: CTranslate2 must search, but does not support the other options.
        """
        is_asked = options.engine == "ctranslate2" or options.precision == "int8"
        is_exported = _is_exported(run)
        if not (is_asked or is_exported):
            return not (needing_torch or prefers_torch) and _is_as_good(run, options)
        by = "`precision` int8" if options.precision == "int8" else "`engine` ctranslate2"
        if options.device not in ("auto", "cpu"):
            what = by if is_asked else run.path
            raise UsageError(f"{what}: CTranslate2 only runs on CPUs here; use `device` cpu")
        needing = " and ".join(needing_torch)
        if needing and is_exported:
            raise UsageError(
                f"{run.path}: is a CTranslate2 model, which does not support {needing}; "
                "leave it out, or name the run that the model was exported from"
            )
        if needing:
            raise UsageError(f"{by}: does not support {needing}; leave out {by} or {needing}")
        return True

    def load(
        self, run: RunDirectory, checkpoint: str, options: ComputeOptions
    ) -> "CTranslate2Translator":
        """Load an exported model or the cached conversion of a run's model; make it if needed."""
        if _is_exported(run):
            return exported_models.load_exported(run, options)
        return converted.load_run(run, checkpoint, options)


ENGINE = CTranslate2()


def _is_exported(run: RunDirectory) -> bool:
    return run.only_engine is not None and run.only_engine.name == "ctranslate2"


def _is_as_good(run: RunDirectory, options: ComputeOptions) -> bool:
    """Return whether CTranslate2 is installed and writes the same text as torch on a CPU."""
    if options.precision == "bfloat16":
        return False  # the engines round at different places
    config = run.load_config()
    decoding = config.decoding.changed(options.search)
    if not (_writes_same_text(config, decoding) and _is_cpu(options.device)):
        return False
    try:
        import ctranslate2  # noqa: F401
    except ImportError:  # some platforms have no CTranslate2, or cannot load it
        return False
    return True


def find_unsupported(decoding: DecodingConfig, as_torch: bool = False) -> list[str]:
    """Return changed settings that CTranslate2 lacks or, if ``as_torch``, treats unlike torch."""
    followed = {name for name, is_same in _FOLLOWED.items() if is_same or not as_torch}
    return [*decoding.model_dump(exclude=followed, exclude_defaults=True)]


def _writes_same_text(config: Config, decoding: DecodingConfig) -> bool:
    """Return whether CTranslate2 writes the same translations as torch in float32."""
    # Its table of positions may be too short.
    if config.model.positions != "learned" and decoding.max_length_ratio > 2:
        return False
    if find_unsupported(decoding, as_torch=True):
        return False
    # Its probabilities exclude tokens that are never written. One is <unk>, which is likely if it
    # occurred in training targets; excluding it changes the scores that beam search compares.
    # Targets surely have no <unk> only if any text can be spelled in bytes.
    tokenizer = config.tokenizer
    if isinstance(tokenizer, SentencePieceConfig) and tokenizer.byte_fallback:
        return True
    # Codecs come last, as they take long to import.
    return (
        decoding.beam_size == 1
        and tokenizer.kind != "words"
        and not any(find_codec(each).searches_again(config) for each in describe_codecs(config))
    )


def _is_cpu(device: DeviceName) -> bool:
    """Return whether ``device`` is the CPU; import torch only if a GPU driver is installed."""
    if device != "auto" or sys.platform == "darwin":  # 'auto' never chooses a Mac's GPU
        return device in ("auto", "cpu")
    if sys.platform == "linux" and not Path("/dev/kfd").exists():  # AMD's driver
        try:
            ctypes.CDLL("libcuda.so.1")  # NVIDIA's driver
        except OSError:
            return True
    from transformer_cli.model.device import choose_device

    return choose_device(device).type == "cpu"
