"""An experiment: the model compiled by torch."""

import time
from collections.abc import Iterator

import torch

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import SMALL_MODEL, Setting, attempt
from benchmarks.gpu.timing import synchronize

_BATCH_TOKENS = 2560


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the first step's seconds and the milliseconds of later ones, eager and compiled."""
    corpus = load_corpus(setting)
    for compiles in (False, True):
        label: Row = {"model": "compiled" if compiles else "eager"}
        yield from attempt(label, _train(corpus, compiles))


def _train(corpus: Corpus, compiles: bool) -> Iterator[Row]:
    device = corpus.setting.device
    epochs = 3
    config = corpus.config(SMALL_MODEL, _BATCH_TOKENS, epochs)
    trainer = corpus.trainer(config, corpus.take(40, _BATCH_TOKENS), use_graphs=False)
    if compiles:
        hidden_states = torch.compile(trainer.model.hidden_states, dynamic=True)
        setattr(trainer.model, "hidden_states", hidden_states)  # noqa: B010
    started, steps, tokens, first = time.perf_counter(), 0, 0, 0.0
    for step in trainer.steps():
        steps, tokens = steps + 1, tokens + step.tgt_tokens
        if step.step == 1:
            synchronize(device)
            first = time.perf_counter() - started
        if step.ends_epoch:
            synchronize(device)
            seconds = time.perf_counter() - started
            yield {
                "first step, s": first,
                "epoch": step.epoch,
                "ms a step": 1000 * seconds / steps,
                "target tokens/s": tokens / seconds,
            }
            started, steps, tokens = time.perf_counter(), 0, 0
