"""Random changes to the training text in each epoch, and the settings for them.

To add a change, add a field to ``AugmentationSettings`` and an item that ``find_changes`` yields.
Commands that only read settings import this module, so numpy is imported where text is changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.packages import lazy_imports
from transformer_cli.config.schema import Config
from transformer_cli.config.sections import Probability, Section, setting
from transformer_cli.config.tokenizer_schema import SentencePieceConfig, TokenizerSection
from transformer_cli.text.protocol import Tokenizers

with lazy_imports():
    from transformer_cli.data import batches, store as stores
    from transformer_cli.extensions.augmentation import bpe_dropout


class AugmentationSettings(Section):
    """The settings for augmentation in the config section ``training``."""

    src_bpe_dropout: Probability = setting(
        0.0,
        "BPE-dropout (Provilkov et al. 2020): probability of skipping a merge in a "
        "source word during training; batches then hold more tokens",
    )
    tgt_bpe_dropout: Probability = setting(0.0, "BPE-dropout of the target side")
    concatenate: Probability = setting(
        0.0,
        "probability of joining a random pair to a training pair, repeatedly, up to max_length "
        "(Nguyen et al. 2021); redrawn in each epoch, at no cost in time; to translate longer "
        "sentences than the corpus has",
    )

    def check_with(self, config: Any) -> None:
        """Raise ValueError if BPE-dropout is set, but the tokenizer cannot have merges to skip."""
        super().check_with(config)
        for key in ("src_bpe_dropout", "tgt_bpe_dropout"):
            if getattr(self, key) and not _may_have_merges(config.tokenizer):
                raise ValueError(
                    f"training.{key}: needs merges to skip (tokenizer.kind sentencepiece with "
                    "model_type: bpe); set it to 0"
                )


def _may_have_merges(tokenizer: TokenizerSection) -> bool:
    if isinstance(tokenizer, SentencePieceConfig):
        return tokenizer.model_type == "bpe"
    entry = registry.find("tokenizer", tokenizer.kind)
    # Only opening a file shows the type of its model.
    return entry is not None and entry.facts.get("model") == "sentencepiece"


def find_changes(
    config: Config, tokenizers: Tokenizers, store: "stores.EncodedStore"
) -> Iterator[tuple[str, "batches.Augmentation"]]:
    """Yield (what it changes, augmentation) for each one set; it changes 'subwords' or 'rows'."""
    training = config.training
    if not isinstance(training, AugmentationSettings):
        return
    rates = training.src_bpe_dropout, training.tgt_bpe_dropout
    if any(rates):
        yield "subwords", bpe_dropout.build_bpe_dropout(rates, tokenizers, training.max_length)
    if training.concatenate:
        yield "rows", Concatenation(training.concatenate, training.max_length)


@dataclass(frozen=True)
class Concatenation:
    """Concatenation of random sentence pairs (Nguyen et al. 2021); an ``Augmentation``.

    The rows of a batch become n pairs each, joined end to end, with probability
    ``probability ** (n - 1) * (1 - probability)``. Sources and targets stay within ``max_length``.
    """

    probability: float
    max_length: int

    def __call__(self, text: "stores.EncodedText", seed: int) -> "stores.EncodedText":
        """Return the same pairs, joined in an order drawn with ``seed`` into fewer, longer rows."""
        import numpy as np

        random = np.random.Generator(np.random.PCG64(seed))
        # Draw once per batch: its pairs have similar lengths, and so do its rows afterwards.
        longest = max(int(side.max(initial=1)) for side in text.lengths)
        pairs = min(int(random.geometric(1 - self.probability)), self.max_length // longest)
        if pairs < 2:
            return text
        shuffled = text.take(random.permutation(len(text)))
        # Only offsets separate rows; the last row may have fewer sentences.
        src, tgt = (
            stores.TokenArray(side.ids, np.append(side.offsets[:-1:pairs], side.offsets[-1]))
            for side in (shuffled.src, shuffled.tgt)
        )
        return stores.EncodedText(src, tgt)
