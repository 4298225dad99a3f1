"""Where a training step waits for the GPU."""

import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from benchmarks.environments import ROOT
from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import SMALL_MODEL, Setting, attempt, on_off
from benchmarks.gpu.timing import synchronize

_PACKAGE = str(ROOT / "transformer_cli")


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the synchronisations of an epoch's steps, by the line that waits."""
    corpus = load_corpus(setting)
    for graphs in (False, True):  # a capture that fails may spoil what follows
        yield from attempt({"graphs": on_off(graphs)}, _count(corpus, graphs))


def _count(corpus: Corpus, graphs: bool) -> Iterator[Row]:
    batch_tokens = 2560
    config = corpus.config(SMALL_MODEL, batch_tokens, 3)
    trainer = corpus.trainer(config, corpus.take(20, batch_tokens), use_graphs=graphs)
    steps = trainer.steps()
    for step in steps:
        if step.ends_epoch and step.epoch == 2:
            break
    synchronize(corpus.setting.device)
    with recorded_syncs() as places:
        taken = sum(1 for _ in steps)
    yield {
        "steps": taken,
        "waits": places.total(),
        "a step": places.total() / taken,
        "where": "all",
    }
    for place, waits in places.most_common():
        yield {"steps": taken, "waits": waits, "a step": waits / taken, "where": place}


@contextmanager
def recorded_syncs() -> Iterator[Counter[str]]:
    """Count the synchronisations of the block by their innermost line in this program."""
    places: Counter[str] = Counter()

    def record(message: Warning | str, *_: object) -> None:
        if "called a synchronizing CUDA operation" in str(message):
            places[_innermost_place()] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = record  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode("default")


def _innermost_place() -> str:
    for frame in reversed(traceback.extract_stack()):
        if frame.filename.startswith(_PACKAGE):
            return f"{frame.filename[len(_PACKAGE) + 1 :]}:{frame.lineno} ({frame.line})"
    return "outside the program"
