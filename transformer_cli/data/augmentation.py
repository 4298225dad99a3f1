"""What changes the pairs of a batch in each epoch: other subwords, and pairs put together."""

from dataclasses import dataclass

import numpy as np

from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.text.protocol import UNK_ID, Tokenizer


@dataclass(frozen=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): merges are left out, at a rate for each side.

    A sentence that would get more than ``max_length`` tokens keeps its segmentation, and so does
    one with an unknown token.
    """

    src: Tokenizer
    tgt: Tokenizer
    src_rate: float
    tgt_rate: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same pairs in subwords drawn with ``seed``."""
        return EncodedText(
            self._sample(text.src, self.src, self.src_rate, seed),
            # Other draws than the source's.
            self._sample(text.tgt, self.tgt, self.tgt_rate, seed ^ 1),
        )

    def _sample(self, side: TokenArray, tokenizer: Tokenizer, rate: float, seed: int) -> TokenArray:
        if not rate:
            return side
        whole: list[list[int]] = [side[index].tolist() for index in range(len(side))]
        sampled = tokenizer.sample(whole, rate, seed)
        return TokenArray.from_sentences(
            # The ids no longer tell which text an unknown token stands for.
            new if len(new) <= self.max_length and UNK_ID not in old else old
            for old, new in zip(whole, sampled, strict=True)
        )


@dataclass(frozen=True)
class Concatenation:
    """Concatenation of random pairs (Nguyen et al. 2021), so that longer text is learned too.

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
