"""Sentences a second of greedy and beam search, by each engine."""

from collections.abc import Iterator, Sequence
from typing import Literal

from benchmarks.decoding_job import BEAM_SIZE
from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting, attempt
from benchmarks.gpu.timing import seconds_of
from transformer_cli.data.sources import default_split, load_split
from transformer_cli.inference.engine import SearchEngine
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.inference.translator import TextTranslator
from transformer_cli.text.vocabulary import EOS_ID

Translator = TextTranslator[SearchEngine]

_REPETITIONS = 8
"""Of the test split, which alone is too short to fill a GPU."""


def measure(setting: Setting) -> Iterator[Row]:
    """Yield sentences per second by engine, precision, search and batch."""
    device: Literal["cuda", "cpu"] = "cuda" if setting.device.type == "cuda" else "cpu"
    engines: list[tuple[Literal["torch", "ctranslate2"], Literal["bfloat16", "float32"]]] = [
        ("torch", "bfloat16"),
        ("torch", "float32"),
        ("ctranslate2", "float32"),
    ]
    if device == "cuda":  # not every CPU has it
        engines.append(("ctranslate2", "bfloat16"))
    for engine, precision in engines:
        options = ComputeOptions(engine, device, precision)
        for beam_size in (1, BEAM_SIZE):
            label: Row = {
                "engine": engine,
                "precision": precision,
                "search": f"beam {beam_size}" if beam_size > 1 else "greedy",
            }
            yield from attempt(label, _speeds(setting, options, beam_size))


def _read_sources(setting: Setting, translator: Translator) -> list[list[int]]:
    data = translator.config.data
    lines = load_split(data, default_split(data)).src[: 4 if setting.small else None]
    return [[*translator.tokenizers.src.encode(line), EOS_ID] for line in lines]


def _speeds(setting: Setting, options: ComputeOptions, beam_size: int) -> Iterator[Row]:
    translator = load_translator(setting.run, "best", options)
    sources = _read_sources(setting, translator)
    alone = sources[: 1 if setting.small else 50]
    searching = translator.with_search(beam_size, batch_tokens=1)
    yield {"batch": "1 sentence", **_passes(setting, searching, alone)}
    many = list(sources) * (1 if setting.small else _REPETITIONS)
    for tokens in (512,) if setting.small else (4096, 16384, 65536):
        # A hypothesis of a beam takes as much of a batch as a sentence.
        searching = translator.with_search(beam_size, tokens * beam_size)
        yield {"batch": f"{tokens:,} tokens", **_passes(setting, searching, many)}


def _passes(setting: Setting, translator: Translator, sources: Sequence[list[int]]) -> Row:
    first, second = (
        len(sources) / seconds_of(lambda: translator.translate_ids(sources), setting.device)
        for _ in range(2)
    )
    return {"sentences": len(sources), "first pass": first, "second pass": second}
