"""Random pairs put one behind another in each epoch, so that longer text is learned too."""

from dataclasses import dataclass

import numpy as np

from transformer_cli.config.schema import Config
from transformer_cli.data.store import EncodedStore, EncodedText, TokenArray
from transformer_cli.extensions.augmentation.settings import AugmentationSettings
from transformer_cli.text.protocol import Tokenizers


@dataclass(frozen=True)
class Concatenation:
    """Concatenation of random pairs (Nguyen et al. 2021); an ``Augmentation``.

    Each row of a batch becomes n pairs, one after another, with probability
    ``probability ** (n - 1) * (1 - probability)``, of at most ``max_length`` tokens a side.
    """

    probability: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the pairs in fewer, longer rows, drawn with ``seed``."""
        random = np.random.Generator(np.random.PCG64(seed))
        # One draw a batch: its pairs are of similar length, so that its rows stay so.
        longest = max(int(side.max(initial=1)) for side in text.lengths)
        pairs = min(int(random.geometric(1 - self.probability)), self.max_length // longest)
        if pairs < 2:
            return text
        shuffled = text.take(random.permutation(len(text)))
        return EncodedText(*(_join(side, pairs) for side in (shuffled.src, shuffled.tgt)))


def _join(side: TokenArray, sentences: int) -> TokenArray:
    # Rows are told apart by their offsets alone; the last row may have fewer sentences.
    return TokenArray(side.ids, np.append(side.offsets[:-1:sentences], side.offsets[-1]))


def build_concatenation(
    config: Config, tokenizers: Tokenizers, store: EncodedStore
) -> Concatenation | None:
    """Return what puts pairs together; None: no setting asks for it."""
    training = config.training
    if not isinstance(training, AugmentationSettings) or not training.concatenate:
        return None
    return Concatenation(training.concatenate, training.max_length)
