"""Measures how fast this machine trains and translates; takes about a minute.

The model has the size given in the shipped config ``MODEL``; its weights and the sentences are
random. Each speed is the median of as many calls as fit into a few seconds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import psutil
import torch

from transformer_cli.base.messages import bar
from transformer_cli.cli.init import find_configs
from transformer_cli.config.schema import Config
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.extensions.ctranslate2.spec import write_model
from transformer_cli.inference.engine import SearchEngine, SearchOptions
from transformer_cli.inference.search import TorchEngine
from transformer_cli.inference.translator import ignore, never
from transformer_cli.model.device import choose_precision, has_bfloat16
from transformer_cli.model.transformer import Transformer, build_model
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Tokenizer,
    Tokenizers,
)
from transformer_cli.training.trainer import Trainer

MODEL = "multi30k_de_en_fast"
# Tokens in a sentence, similar to Multi30k's captions.
_SHORTEST, _LONGEST = 6, 22
_LENGTH = (_SHORTEST + _LONGEST) // 2
_BATCHES = 20  # in an epoch of training
_SEARCH_TOKENS = 4096  # for each thread at a time


@dataclass(frozen=True)
class Speed:
    """The measured speed of training or translation, with the precision and threads used."""

    what: str
    precision: str
    threads: int
    engine: str
    tokens_per_second: float  # target tokens


@dataclass(frozen=True)
class Bench:
    """A benchmark of one model shape on one device; each measurement takes a few seconds."""

    config: Config
    device: torch.device
    seconds: float = 2.5  # training gets twice as long

    @classmethod
    def of_shipped_model(cls, device: torch.device) -> "Bench":
        return cls(load_config(find_configs()[MODEL]), device)

    @property
    def vocab(self) -> int:
        assert isinstance(self.config.tokenizer, SentencePieceConfig)
        return self.config.tokenizer.vocab_size

    def plan(self) -> list[tuple[str, str, int]]:
        """Return the measurements to make, as (what to measure, precision, number of threads)."""
        on_cpu = self.device.type == "cpu"
        fast = choose_precision("auto", self.device) == torch.bfloat16
        precisions = ["float32", *(["bfloat16"] if fast or (on_cpu and has_bfloat16()) else [])]
        searched = [*precisions, *(["int8"] if on_cpu and _has_ctranslate2() else [])]
        all_threads = torch.get_num_threads()
        return [
            (what, precision, threads)
            for threads in sorted({1, all_threads} if on_cpu else {all_threads})
            for what, names in (("training", precisions), ("translation", searched))
            for precision in names
        ]

    def measure(self) -> Iterator[Speed]:
        """Yield the speed for each measurement in ``plan``; show a progress bar on stderr."""
        all_threads, plan = torch.get_num_threads(), self.plan()
        with bar(len(plan), "", " measurements") as shown:
            try:
                for what, precision, threads in plan:
                    shown.set_description(f"{what}, {precision}, threads {threads}")
                    torch.set_num_threads(threads)
                    if what == "training":
                        engine, tokens = "torch", self._train(getattr(torch, precision))
                    else:
                        engine, tokens = self._translate(precision, threads)
                    yield Speed(what, precision, threads, engine, tokens)
                    shown.update()
            finally:
                torch.set_num_threads(all_threads)

    def _train(self, dtype: torch.dtype) -> float:
        """Return the training speed in target tokens per second."""
        config = self.config
        endless = config.training.model_copy(update={"epochs": 10**6})
        config = config.model_copy(update={"training": endless})
        trainer = Trainer(self._build_model(), self._draw_text(), config, dtype)
        steps = trainer.steps()
        # A GPU runs behind the host, and records the graph of a shape when it sees it again.
        is_late = self.device.type == "cuda"
        at_once, first = (trainer.steps_per_epoch, 3) if is_late else (1, 1)

        def train() -> float:
            return sum(next(steps).tgt_tokens for _ in range(at_once))

        for _ in range(first):
            train()
        return self._rate(train, 2 * self.seconds)

    def _translate(self, precision: str, threads: int) -> tuple[str, float]:
        """Return the engine's name and its speed in greedy search, in target tokens per second."""
        count = threads * max(1, _SEARCH_TOKENS // (_LENGTH + 1))
        drawn = np.random.default_rng(1).integers(len(SPECIALS), self.vocab, (count, _LENGTH))
        sources = [[*ids, EOS_ID] for ids in drawn.tolist()]
        # A model with random weights rarely ends a sentence, so each output gets a fixed length.
        banned = (UNK_ID, BOS_ID, EOS_ID, PAD_ID)
        options = SearchOptions(BOS_ID, EOS_ID, banned, with_scores=False)

        def search(sources: Sequence[list[int]]) -> float:
            limits = [_LENGTH] * len(sources)
            found = engine.search(sources, limits, options, _SEARCH_TOKENS, ignore, never)
            return sum(len(best.ids) for best, *_ in found)

        with TemporaryDirectory() as directory:
            engine = self._open_engine(precision, threads, Path(directory))
            search(sources[:threads])
            return engine.name, self._rate(lambda: search(sources), self.seconds)

    def _open_engine(self, precision: str, threads: int, directory: Path) -> SearchEngine:
        """Return CTranslate2's engine on a CPU if ``translate`` would use it, otherwise torch's.

        For CTranslate2, the converted model is written to ``directory``.
        """
        model = self._build_model().eval()
        if self.device.type != "cpu" or precision == "bfloat16" or not _has_ctranslate2():
            return TorchEngine(model, getattr(torch, precision))
        numerals = _Numerals(self.vocab)
        tokenizers = Tokenizers(numerals, numerals)
        quantization: Literal["int8", "float32"] = "int8" if precision == "int8" else "float32"
        trained = TrainedModel(self.config, tokenizers, model, directory, "")
        write_model(trained, quantization, directory)
        return CTranslate2Engine.open(
            directory, self.config.model, tokenizers, threads, quantization
        )

    def _build_model(self) -> Transformer:
        sizes, seed = self.config.model, self.config.seed
        return build_model(sizes, self.vocab, self.vocab, PAD_ID, seed).to(self.device)

    def _draw_text(self) -> EncodedText:
        """Return enough random sentence pairs for the batches of one epoch."""
        random = np.random.default_rng(self.config.seed)
        pairs = _BATCHES * self.config.training.batch_tokens // (_LENGTH + 1)
        lengths = random.integers(_SHORTEST, _LONGEST + 1, pairs)
        sides = (
            TokenArray.from_sentences(
                random.integers(len(SPECIALS), self.vocab, length) for length in of_side
            )
            for of_side in (lengths, lengths + random.integers(-2, 3, pairs))
        )
        return EncodedText(*sides)

    def _rate(self, call: Callable[[], float], seconds: float) -> float:
        """Repeat ``call``, which returns its number of tokens; return the median of its speeds."""
        rates: list[float] = []
        self._synchronize()
        end = time.perf_counter() + seconds
        while not rates or time.perf_counter() < end:
            start = time.perf_counter()
            work = call()
            self._synchronize()
            rates.append(work / (time.perf_counter() - start))
        return median(rates)

    def _synchronize(self) -> None:
        """Wait until a GPU has finished its work; on a CPU, return at once."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


def measure_load() -> float:
    """Return the fraction of the CPU's time, from 0 to 1, that other programs are using now."""
    return float(psutil.cpu_percent(interval=0.5)) / 100


class _Numerals(Tokenizer):
    """A tokenizer that names each token by its id, because CTranslate2 needs names of tokens."""

    def __init__(self, size: int) -> None:
        self.size = size

    def encode(self, line: str) -> list[int]:
        return [int(numeral) for numeral in line.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def token(self, number: int) -> str:
        return str(number)


def _has_ctranslate2() -> bool:
    return find_spec("ctranslate2") is not None
