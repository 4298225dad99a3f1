"""Subword sampling: training text cut into other subwords each time it is read."""

from dataclasses import dataclass

from transformer_cli.data.encoded import EncodedText, TokenStore
from transformer_cli.text.protocol import Tokenizer
from transformer_cli.text.vocabulary import UNK_ID


@dataclass(frozen=True)
class SampledSubwords:
    """BPE-dropout (Provilkov et al. 2020) of one or both sides of some pairs.

    Attributes:
        src: the source side's tokenizer.
        tgt: the target side's.
        src_rate: probability that a merge of the source side is left out; 0 changes nothing.
        tgt_rate: the same of the target side.
        max_length: a sentence that would have more tokens than this stays as it is, and so does
            one with an unknown character.
    """

    src: Tokenizer
    tgt: Tokenizer
    src_rate: float
    tgt_rate: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """The same pairs in subwords that ``seed`` decides."""
        return EncodedText(
            self._side(text.src, self.src, self.src_rate, seed),
            # Other draws than the source's.
            self._side(text.tgt, self.tgt, self.tgt_rate, seed ^ 1),
        )

    def _side(self, side: TokenStore, tokenizer: Tokenizer, rate: float, seed: int) -> TokenStore:
        if not rate:
            return side
        whole: list[list[int]] = [side[index].tolist() for index in range(len(side))]
        sampled = tokenizer.sample(whole, rate, seed)
        return TokenStore.of(
            # What an unknown token stood for is not known any more.
            new if len(new) <= self.max_length and UNK_ID not in old else old
            for old, new in zip(whole, sampled, strict=True)
        )
