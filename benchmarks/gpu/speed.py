"""Target tokens a second of training, epoch by epoch."""

import time
from collections.abc import Iterator

import torch

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.peaks import matmul_rate
from benchmarks.gpu.setting import BASE_MODEL, SMALL_MODEL, Setting, attempt, model_name, on_off
from benchmarks.gpu.timing import synchronize

_EPOCHS = 3


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the speed of each epoch, by model, batch and graphs."""
    corpus = load_corpus(setting)
    trainings, side = ((SMALL_MODEL, 2560), (SMALL_MODEL, 4096), (BASE_MODEL, 25_000)), 8192
    if setting.small:
        trainings, side = ((SMALL_MODEL, 256), (SMALL_MODEL, 512), (BASE_MODEL, 512)), 256
    peak = matmul_rate("bfloat16", side, setting.device)
    for model, batch_tokens in trainings:
        for graphs in (False, True):  # a capture that fails may spoil what follows
            label: Row = {
                "model": model_name(model),
                "tokens a batch": batch_tokens,
                "graphs": on_off(graphs),
            }
            yield from attempt(label, _epochs(corpus, model, batch_tokens, graphs, peak))


def _epochs(
    corpus: Corpus, model: str, batch_tokens: int, graphs: bool, peak: float
) -> Iterator[Row]:
    device = corpus.setting.device
    config = corpus.config(model, batch_tokens, _EPOCHS)
    text = corpus.take(2, batch_tokens) if corpus.setting.small else corpus.text
    flops = corpus.epoch_flops(config) * len(text) / len(corpus.text)
    trainer = corpus.trainer(config, text, use_graphs=graphs)
    synchronize(device)
    started, steps, tokens = time.perf_counter(), 0, 0
    for step in trainer.steps():
        steps, tokens = steps + 1, tokens + step.tgt_tokens
        if step.ends_epoch:
            synchronize(device)
            seconds = time.perf_counter() - started
            yield {
                "epoch": step.epoch,
                "steps": steps,
                "ms a step": 1000 * seconds / steps,
                "target tokens/s": tokens / seconds,
                "TFLOP/s": flops / seconds / 1e12,
                "% of the peak": 100 * flops / seconds / peak,
                "peak memory, GiB": peak_memory(device) / 2**30,
            }
            started, steps, tokens = time.perf_counter(), 0, 0


def peak_memory(device: torch.device) -> int:
    """Return the most memory that torch has held on a GPU, bytes; 0 on a CPU."""
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0
