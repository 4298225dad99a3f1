"""How fast this machine trains and translates, measured in a minute.

The model has the size of a shipped configuration, with random weights and random sentences. A speed
is the median of as many calls as fit into a few seconds; for matrix products, it is the maximum.
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
from transformer_cli.config.schema import Config, ModelConfig
from transformer_cli.config.shipped import find_configs
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.config.yaml import load_config
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.ctranslate2.engine import CTranslate2Engine
from transformer_cli.extensions.ctranslate2.spec import write_model
from transformer_cli.inference.engine import SearchEngine, SearchOptions
from transformer_cli.inference.torch_engine import TorchEngine
from transformer_cli.inference.translation import ignore, never
from transformer_cli.model.device import choose_precision
from transformer_cli.model.linear import FusedLinear, autocast
from transformer_cli.model.transformer import Transformer, build_model
from transformer_cli.runs.trained_model import TrainedModel
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID
from transformer_cli.training.resources import has_bfloat16
from transformer_cli.training.trainer import Trainer

MODEL = "multi30k_de_en_fast"
# Tokens of a sentence: those of Multi30k's captions, about.
_SHORTEST, _LONGEST = 6, 22
_LENGTH = (_SHORTEST + _LONGEST) // 2
_BATCHES = 20  # of an epoch of training
_SEARCH_TOKENS = 4096  # that a thread is given at once


@dataclass(frozen=True)
class Speed:
    """The result of one measurement."""

    what: str
    precision: str
    threads: int
    engine: str
    tokens_per_second: float | None  # target tokens
    flops_per_second: float | None
    share_of_peak: float | None  # of the FLOP/s of matrix products with as many threads


@dataclass(frozen=True)
class Bench:
    """A model's shape that is measured on a device, for some seconds each time."""

    config: Config
    device: torch.device
    sizes: tuple[int, ...]  # rows and columns of the matrices that are multiplied
    seconds: float = 2.5  # training gets twice as long

    @classmethod
    def of_shipped_model(cls, device: torch.device) -> "Bench":
        config = load_config(find_configs()[MODEL])
        sizes = (1024, 2048) if device.type == "cpu" else (4096, 8192)
        return cls(config, device, sizes)

    @property
    def vocab(self) -> int:
        assert isinstance(self.config.tokenizer, SentencePieceConfig)
        return self.config.tokenizer.vocab_size

    def plan(self) -> list[tuple[str, str, int]]:
        """Return (what to measure, precision, threads); the peaks come first."""
        on_cpu = self.device.type == "cpu"
        fast = choose_precision("auto", self.device) == torch.bfloat16
        precisions = ["float32", *(["bfloat16"] if fast or (on_cpu and has_bfloat16()) else [])]
        searched = [*precisions, *(["int8"] if on_cpu and _has_ctranslate2() else [])]
        all_threads = torch.get_num_threads()
        return [
            (what, precision, threads)
            for threads in sorted({1, all_threads} if on_cpu else {all_threads})
            for what, names in (
                ("matrix product", precisions),
                ("training", precisions),
                ("translation", searched),
            )
            for precision in names
        ]

    def measure(self) -> Iterator[Speed]:
        """Yield a speed for each entry of the plan; a bar on stderr says what is measured."""
        all_threads, peaks, plan = torch.get_num_threads(), {}, self.plan()
        with bar(len(plan), "", " measurements") as shown:
            try:
                for what, precision, threads in plan:
                    shown.set_description(f"{what}, {precision}, threads {threads}")
                    torch.set_num_threads(threads)
                    engine, tokens, flops = "torch", None, None
                    if what == "translation":
                        engine, tokens = self._translate(precision, threads)
                    elif what == "training":
                        tokens, flops = self._train(getattr(torch, precision))
                    else:
                        flops = self._multiply(getattr(torch, precision))
                        peaks[precision, threads] = flops
                    share = flops / peaks[precision, threads] if flops else None
                    yield Speed(what, precision, threads, engine, tokens, flops, share)
                    shown.update()
            finally:
                torch.set_num_threads(all_threads)

    def _multiply(self, dtype: torch.dtype) -> float:
        """Return the FLOP/s of the fastest product of two square matrices, as layers multiply."""
        with torch.inference_mode(), autocast(self.device, dtype):
            return max(rate for size in self.sizes for rate in self._square(size, dtype))

    def _square(self, size: int, dtype: torch.dtype) -> list[float]:
        layer = FusedLinear(torch.nn.Linear(size, size, device=self.device))
        x = torch.randn(size, size, device=self.device, dtype=dtype)
        layer.pack()

        def multiply() -> float:
            layer(x)
            return 2.0 * size**3

        multiply()  # the first one allocates, and picks a kernel
        return self._rates(multiply, self.seconds / 6)

    def _train(self, dtype: torch.dtype) -> tuple[float, float]:
        """Return the target tokens a second of training, and their FLOP/s."""
        config, text = self.config, self._draw_text()
        endless = config.training.model_copy(update={"epochs": 10**6})
        config = config.model_copy(update={"training": endless})
        trainer = Trainer(self._build_model(), text, config, dtype)
        steps = trainer.steps()
        # A GPU computes behind the host, and records a shape's graph when it sees it again.
        is_late = self.device.type == "cuda"
        at_once, first = (trainer.steps_per_epoch, 3) if is_late else (1, 1)

        def train() -> float:
            return sum(next(steps).tgt_tokens for _ in range(at_once))

        for _ in range(first):
            train()
        rate = median(self._rates(train, 2 * self.seconds))
        src, tgt = ((lengths + 1).tolist() for lengths in text.lengths)  # end marks
        return rate, rate * training_flops(config.model, self.vocab, src, tgt) / sum(tgt)

    def _translate(self, precision: str, threads: int) -> tuple[str, float]:
        """Return the engine's name, and its target tokens a second in greedy search."""
        count = threads * max(1, _SEARCH_TOKENS // (_LENGTH + 1))
        drawn = np.random.default_rng(1).integers(len(SPECIALS), self.vocab, (count, _LENGTH))
        sources = [[*ids, EOS_ID] for ids in drawn.tolist()]
        # A model with random weights rarely ends a sentence, so each output gets a fixed length.
        banned = (UNK_ID, BOS_ID, EOS_ID, PAD_ID)
        options = SearchOptions(BOS_ID, EOS_ID, banned, with_scores=False)

        def search(sources: Sequence[list[int]]) -> float:
            prefixes: list[list[int]] = [[] for _ in sources]
            limits = [_LENGTH] * len(sources)
            found = engine.search(sources, prefixes, limits, options, _SEARCH_TOKENS, ignore, never)
            return sum(len(best.ids) for best, *_ in found)

        with TemporaryDirectory() as directory:
            engine = self._open_engine(precision, threads, Path(directory))
            search(sources[:threads])
            rate = median(self._rates(lambda: search(sources), self.seconds))
        return ("torch" if isinstance(engine, TorchEngine) else "ctranslate2"), rate

    def _open_engine(self, precision: str, threads: int, directory: Path) -> SearchEngine:
        """Return CTranslate2 on a CPU if ``translate`` would use it, otherwise torch.

        A converted model is written to ``directory``.
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
            directory, self.config.model, tokenizers, ("cpu", 0), threads, quantization
        )

    def _build_model(self) -> Transformer:
        config = self.config
        model = build_model(config.model, self.vocab, self.vocab, PAD_ID, config.seed)
        return model.to(self.device)

    def _draw_text(self) -> EncodedText:
        """Return enough random pairs for an epoch's batches."""
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

    def _rates(self, call: Callable[[], float], seconds: float) -> list[float]:
        """Return the work per second of each call, which returns its work; at least one."""
        rates: list[float] = []
        self._synchronize()
        end = time.perf_counter() + seconds
        while not rates or time.perf_counter() < end:
            start = time.perf_counter()
            work = call()
            self._synchronize()
            rates.append(work / (time.perf_counter() - start))
        return rates

    def _synchronize(self) -> None:
        """Wait until a GPU has computed what it was given; a CPU has."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


def measure_load() -> float:
    """Return the share of the processor that other programs are using."""
    return float(psutil.cpu_percent(interval=0.5)) / 100


class _Numerals(Tokenizer):
    """Names ids by numerals, because CTranslate2 only knows tokens by name."""

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


# --- arithmetic -----------------------------------------------------------------------------------

_FORWARD_AND_BACKWARD = 3
"""Backward makes two products of each of forward's: one for the input, one for the weights."""


def training_flops(
    config: ModelConfig, vocab: int, src_lengths: Sequence[int], tgt_lengths: Sequence[int]
) -> float:
    """Floating-point operations of the matrix products of one update; padding is never counted.

    A token costs 2 operations forward and 4 backward for each weight of the matrices it passes;
    attention's two products cost 2 * d_model forward and 4 * d_model backward each for every
    pair of positions that may attend. Embedding, normalisation, softmax, dropout, loss and
    optimizer are left out: they take time, but no work of matrix products.

    Args:
        config: sizes of the model.
        vocab: entries of the target vocabulary.
        src_lengths: source tokens of each pair, the end mark counted.
        tgt_lengths: target tokens of each pair, the end mark counted.
    """
    src_weights, tgt_weights = _weights_of_a_token(config, vocab)
    products = src_weights * sum(src_lengths) + tgt_weights * sum(tgt_lengths)
    products += 2 * config.d_model * _attended(config, src_lengths, tgt_lengths)
    return 2.0 * _FORWARD_AND_BACKWARD * products


def _weights_of_a_token(config: ModelConfig, vocab: int) -> tuple[int, int]:
    """Matrix weights that a source and a target token pass through, in all layers."""
    projection = config.d_model**2
    feed_forward = (3 if config.activation == "swiglu" else 2) * config.d_model * config.d_ff
    # The memory's keys and values are made of source tokens, by the decoder's matrices.
    src = config.num_encoder_layers * (4 * projection + feed_forward)
    src += config.num_decoder_layers * 2 * projection
    tgt = config.num_decoder_layers * (6 * projection + feed_forward)
    tgt += config.d_model * vocab
    return src, tgt


def _attended(config: ModelConfig, src_lengths: Sequence[int], tgt_lengths: Sequence[int]) -> int:
    """Pairs of a query and a key that it may attend to, in all layers."""
    within_src = sum(src * src for src in src_lengths)
    within_tgt = sum(tgt * (tgt + 1) // 2 for tgt in tgt_lengths)  # up to itself
    across = sum(src * tgt for src, tgt in zip(src_lengths, tgt_lengths, strict=True))
    encoder = config.num_encoder_layers * within_src
    return encoder + config.num_decoder_layers * (within_tgt + across)
