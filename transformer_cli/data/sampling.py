"""Subword regularization: each epoch segments the training text anew."""

from dataclasses import dataclass

from transformer_cli.data.token_arrays import EncodedText, TokenArray
from transformer_cli.text.protocol import Tokenizer
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020) of one or both sides.

    Attributes:
        src: the source side's tokenizer.
        tgt: the target side's.
        src_rate: probability of leaving out a merge on the source side; 0 changes nothing.
        tgt_rate: the same of the target side.
        max_length: a sentence that would get more tokens than this keeps its segmentation, and so
            does one with an unknown token.
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
