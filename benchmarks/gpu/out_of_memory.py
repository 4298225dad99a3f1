"""Whether training goes on where a batch does not fit into the GPU's memory."""

from collections.abc import Iterator

import torch

from benchmarks.gpu.corpus import Corpus, load_corpus
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import BASE_MODEL, Setting, attempt, on_off
from benchmarks.gpu.speed import peak_memory

_BATCH_TOKENS, _STEPS = 25_000, 6


def measure(setting: Setting) -> Iterator[Row]:
    """Yield how training went without a limit, and with less and less memory."""
    corpus = load_corpus(setting)
    total = torch.cuda.get_device_properties(setting.device).total_memory
    for graphs in (False, True):
        label: Row = {"graphs": on_off(graphs)}
        peak = 0.0
        for row in attempt({**label, "memory": "all"}, _train(corpus, graphs)):
            peak = float(row.get("peak memory, GiB", 0)) * 2**30
            yield row
        for share in (0.7, 0.4, 0.25) if peak else ():
            torch.cuda.set_per_process_memory_fraction(share * peak / total)
            memory = f"{share:.0%} of that"
            yield from attempt({**label, "memory": memory}, _train(corpus, graphs))
            torch.cuda.set_per_process_memory_fraction(1.0)


def _train(corpus: Corpus, graphs: bool) -> Iterator[Row]:
    config = corpus.config(BASE_MODEL, _BATCH_TOKENS, _STEPS, f"training.max_steps={_STEPS}")
    trainer = corpus.trainer(config, corpus.take(3, _BATCH_TOKENS), use_graphs=graphs)
    results = list(trainer.steps())
    last = results[-1]
    yield {
        "steps": len(results),
        "micro-batches, step by step": ", ".join(str(each.micro_batches) for each in results),
        "last loss a token": last.losses.loss.item() / last.tgt_tokens,
        "peak memory, GiB": peak_memory(corpus.setting.device) / 2**30,
    }
