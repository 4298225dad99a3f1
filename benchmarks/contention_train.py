"""A training that trains for as many seconds as each line on its standard input says."""

import argparse
import json
import sys
import time
from collections.abc import Iterator

import torch

from benchmarks.environments import ROOT, WORKSHOP
from benchmarks.task import read_texts, settings
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.store import read_stats
from transformer_cli.model.device import bound_kernel_caches
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.preparation import PreparedData, prepare_data
from transformer_cli.training.trainer import StepResult, Trainer

MODELS = ("toy", "small")
"""That of configs/toy.yaml, and the one that `benchmarks.training` trains."""
_ENDLESS = ("training.epochs=1000000", "training.max_steps=1000000")


def main() -> None:
    """Train as long as there are lines, and print a JSON object for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("precision", choices=("float32", "bfloat16"))
    arguments = parser.parse_args()
    bound_kernel_caches()
    steps = _trainer(arguments.model, getattr(torch, arguments.precision)).steps()
    print(json.dumps({}), flush=True)  # it is ready
    for line in sys.stdin:
        print(json.dumps(_train(steps, float(line))), flush=True)


def _train(steps: Iterator[StepResult], seconds: float) -> dict[str, float]:
    """Train, and tell the speed and what part of the time this thread was computing."""
    tokens = 0
    before, computing = time.perf_counter(), time.thread_time()
    while (passed := time.perf_counter() - before) < seconds:
        tokens += next(steps).tgt_tokens
    computed = time.thread_time() - computing
    return {"tgt_tokens_per_second": tokens / passed, "computing": computed / passed}


def prepare_model(name: str) -> PreparedData:
    """Make a model's tokenizer and encoded text, unless they are there.

    Args:
        name: one of ``MODELS``.
    """
    config = _config(name)
    run = RunDirectory(WORKSHOP / "contention" / name)
    texts = read_texts(config, read_stats(run.encoded))
    initialize_run(run, config)
    return prepare_data(config, texts, run)


def _config(name: str) -> Config:
    if name == "toy":
        return load_config(ROOT / "configs" / "toy.yaml", _ENDLESS)
    return settings(_ENDLESS)


def _trainer(name: str, precision: torch.dtype) -> Trainer:
    config, prepared = _config(name), prepare_model(name)
    sizes = (prepared.tokenizers.src.size, prepared.tokenizers.tgt.size)
    model = build_model(config.model, *sizes, PAD_ID, config.seed)
    return Trainer(model, prepared.pairs, config, precision)


if __name__ == "__main__":
    main()
