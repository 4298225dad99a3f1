"""How translators of CTranslate2 are loaded."""

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from transformer_cli.base.workers import count_cores
from transformer_cli.config.choices import MOST_THREADS
from transformer_cli.extensions.ctranslate2 import converted
from transformer_cli.extensions.ctranslate2.choosing import device_name
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.inference.loading import ComputeOptions
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.runs.checkpoint import MODEL
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.trained_model import open_trained_model

Translator = TextTranslator[CTranslate2Engine]


def load_run(run: RunDirectory, checkpoint: str, options: ComputeOptions) -> Translator:
    """Convert a run's model and keep that, or open the one that was kept."""
    opened = open_trained_model(run, checkpoint)
    config, tokenizers = opened.config, opened.tokenizers
    precision = _choose_precision(options)
    where = choose_device_and_threads(options)
    with ThreadPoolExecutor(max_workers=1) as beside:
        # What the manifest says of the weights has to be true, or a run could claim to have
        # those of another.
        verified = beside.submit(opened.checkpoint.verify_file, MODEL)
        engine = converted.open_converted(
            opened,
            precision,
            lambda path: CTranslate2Engine.open(path, config.model, tokenizers, *where, precision),
        )
        verified.result()
    return TextTranslator(engine, tokenizers, config, config.decoding, checkpoint=opened.sum)


def _choose_precision(options: ComputeOptions) -> Literal["float32", "bfloat16", "int8"]:
    if options.precision != "auto":
        return options.precision
    if device_name(options.device) == "cpu":
        return "float32"
    import torch

    from transformer_cli.model.device import choose_device, choose_precision

    precision = choose_precision("auto", choose_device(options.device))
    return "bfloat16" if precision == torch.bfloat16 else "float32"


def choose_device_and_threads(options: ComputeOptions) -> tuple[tuple[str, int], int]:
    """Return the device with the number of the GPU, and the threads: given, or what torch takes."""
    device = ("cpu", 0)
    if device_name(options.device) != "cpu":
        from transformer_cli.model.device import choose_device

        chosen = choose_device(options.device)
        device = (chosen.type, chosen.index or 0)
    if options.threads is not None:
        return device, options.threads
    if torch := sys.modules.get("torch"):
        return device, int(torch.get_num_threads())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    given = int(wanted) if re.fullmatch("[0-9]{1,9}", wanted) else 0
    return device, min(given, MOST_THREADS) or count_cores()
