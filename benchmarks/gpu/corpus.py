"""Multi30k, or the toy corpus in its place, as token ids: prepared once, in the work directory."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import SMALL_MODEL, Setting
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.data.store import read_stats
from transformer_cli.data.token_arrays import EncodedText, Lengths, count_batches
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.forecast import training_flops
from transformer_cli.training.preparation import prepare_data, select_training_pairs
from transformer_cli.training.texts import read_texts
from transformer_cli.training.trainer import Trainer


@dataclass(frozen=True)
class Corpus:
    """The training text as token ids, and what it takes to train on it."""

    setting: Setting
    text: EncodedText
    vocab: int

    def config(self, name: str, batch_tokens: int, epochs: int, *changes: str) -> Config:
        """Return a shipped configuration that trains for so many epochs."""
        tokens = f"training.batch_tokens={batch_tokens}"
        return self.setting.config(name, tokens, f"training.epochs={epochs}", *changes)

    def trainer(
        self,
        config: Config,
        text: EncodedText | None = None,
        precision: torch.dtype = torch.bfloat16,
        use_graphs: bool = True,
        ranks: Ranks = SINGLE_PROCESS,
    ) -> Trainer:
        """Return a trainer at step 0 on the device.

        Args:
            config: made by ``config``.
            text: part of the corpus; None for all of it.
            precision: compute dtype.
            use_graphs: as ``Trainer`` takes it.
            ranks: as ``Trainer`` takes it.
        """
        model = build_model(config.model, self.vocab, self.vocab, PAD_ID, config.seed)
        return Trainer(
            model.to(self.setting.device),
            text or self.text,
            config,
            precision,
            ranks=ranks,
            use_graphs=use_graphs,
        )

    def take(self, batches: int, batch_tokens: int) -> EncodedText:
        """Return the first pairs, about as many as make ``batches`` in an epoch."""
        lengths, pairs = self.text.lengths, 64
        while pairs < len(self.text):
            first = Lengths(lengths.src[:pairs], lengths.tgt[:pairs])
            if count_batches(first, batch_tokens) >= batches:
                break
            pairs += 64
        return self.text.take(np.arange(min(pairs, len(self.text))))

    def epoch_flops(self, config: Config) -> float:
        """Return the operations of an epoch's matrix products."""
        src, tgt = ((lengths + 1).tolist() for lengths in self.text.lengths)
        return training_flops(config.model, self.vocab, src, tgt)


def load_corpus(setting: Setting) -> Corpus:
    """Return the corpus; learn its vocabulary and encode it if that is not done yet."""
    config = setting.config(SMALL_MODEL)
    run = RunDirectory(setting.work / "corpus")
    initialize_run(run, config)
    texts = read_texts(config.data, read_stats(run.encoded))
    prepared = prepare_data(config, texts, run, _quietly)
    text = select_training_pairs(config, prepared.train).shard(0)
    return Corpus(setting, text, prepared.tokenizers.tgt.size)


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the sizes of the corpus, and the time to prepare it and to open it again."""
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        corpus = load_corpus(setting)
        seconds.append(time.perf_counter() - start)
    yield {
        "corpus": "toy" if setting.uses_toy else "Multi30k",
        "pairs": len(corpus.text),
        "source tokens": int(corpus.text.src.lengths.sum()) + len(corpus.text),
        "target tokens": int(corpus.text.tgt.lengths.sum()) + len(corpus.text),
        "vocabulary": corpus.vocab,
        "preparing, s": seconds[0],
        "opening again, s": seconds[1],
    }


def _quietly(lines: Iterable[str], label: str) -> Iterable[str]:
    return lines
