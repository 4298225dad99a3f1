"""Sentences a second of greedy and beam search."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from benchmarks.decoding_job import BEAM_SIZE
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting, attempt, on_off, precision_name
from benchmarks.gpu.timing import seconds_of
from transformer_cli.data.sources import default_split, load_split
from transformer_cli.inference.torch_engine import TorchEngine, TorchTranslator
from transformer_cli.inference.torch_loading import load_torch_translator
from transformer_cli.text.vocabulary import EOS_ID

_REPETITIONS = 8
"""Of the test split, which alone is too short to fill a GPU."""


def measure(setting: Setting) -> Iterator[Row]:
    """Yield sentences per second by search, precision, graphs and batch."""
    for precision in (torch.bfloat16, torch.float32):
        translator = load_torch_translator(setting.run, "best", setting.device, precision)
        sources = _read_sources(setting, translator)
        for graphs in (False, True):  # a capture that fails may spoil what follows
            engine = TorchEngine(translator.engine.model, precision, use_graphs=graphs)
            with_engine = replace(translator, engine=engine)
            for beam_size in (1, BEAM_SIZE):
                label: Row = {
                    "search": f"beam {beam_size}" if beam_size > 1 else "greedy",
                    "precision": precision_name(precision),
                    "graphs": on_off(graphs),
                }
                yield from attempt(label, _speeds(setting, with_engine, beam_size, sources))


def _read_sources(setting: Setting, translator: TorchTranslator) -> list[list[int]]:
    data = translator.config.data
    lines = load_split(data, default_split(data)).src[: 4 if setting.small else None]
    return [[*translator.tokenizers.src.encode(line), EOS_ID] for line in lines]


def _speeds(
    setting: Setting, translator: TorchTranslator, beam_size: int, sources: Sequence[list[int]]
) -> Iterator[Row]:
    alone = sources[: 1 if setting.small else 50]
    searching = translator.with_search(beam_size, batch_tokens=1)
    yield {"batch": "1 sentence", **_passes(setting, searching, alone)}
    many = list(sources) * (1 if setting.small else _REPETITIONS)
    for tokens in (512,) if setting.small else (4096, 16384, 65536):
        # A hypothesis of a beam takes as much of a batch as a sentence.
        searching = translator.with_search(beam_size, tokens * beam_size)
        yield {"batch": f"{tokens:,} tokens", **_passes(setting, searching, many)}


def _passes(setting: Setting, translator: TorchTranslator, sources: Sequence[list[int]]) -> Row:
    # Graphs are captured in the second pass at the latest, and replayed in the third.
    first, second, third = (
        len(sources) / seconds_of(lambda: translator.translate_ids(sources), setting.device)
        for _ in range(3)
    )
    passes = {"first pass": first, "second pass": second, "third pass": third}
    return {"sentences": len(sources), **passes}
