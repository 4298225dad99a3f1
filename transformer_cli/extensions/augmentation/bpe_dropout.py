"""BPE-dropout: each epoch divides the text into different subwords by skipping some merges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import Any

import sentencepiece

from transformer_cli.base.errors import ConfigError
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.text.protocol import SPECIALS, UNK_ID, Tokenizer, Tokenizers

_seed_lock = Lock()


class Subwords:
    """The subwords of a tokenizer with a SentencePiece model.

    Raises ValueError if there is no such model, or if it has no merges to skip.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.sentencepiece_model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        if model is None or not _has_merges(self._processor):
            raise ValueError("there are no merges")
        self._tokens = [tokenizer.token(number) for number in range(tokenizer.text_size)]
        # Text must not become a special token, even if it spells one.
        numbered = enumerate(self._tokens[len(SPECIALS) :], start=len(SPECIALS))
        self._ids = {token: number for number, token in numbered}

    def sample(self, sentences: Sequence[list[int]], rate: float, seed: int) -> list[list[int]]:
        """Return sentences in other, mostly shorter subwords; reserved ids keep their places.

        ``rate`` is the probability of skipping a merge; ``seed`` is below 2^32.
        """

        def resample() -> list[list[int]]:
            return [list(self._resample(ids, rate)) for ids in sentences]

        # SentencePiece has a generator for each thread, seeded when the thread first draws from it.
        # But the seed belongs to the process.
        with _seed_lock, ThreadPoolExecutor(max_workers=1) as new_thread:
            sentencepiece.set_random_generator_seed(seed)
            return new_thread.submit(resample).result()

    def _resample(self, ids: Iterable[int], rate: float) -> Iterator[int]:
        for is_text, run in groupby(ids, lambda number: number < len(self._tokens)):
            if not is_text:
                yield from run
                continue
            first, *rest = run
            tokens = [self._tokens[number] for number in (first, *rest)]
            if self._is_code(tokens[0]):
                yield first
                del tokens[0]
            # Encode the text, not the ids: a tokenizer may have its own table of ids, with pieces
            # of another model, which keep their sign for a space.
            text = self._processor.decode_pieces(tokens).replace("▁", " ")
            for piece in self._processor.encode(text, out_type=str, **_sampling(rate)):
                yield self._ids.get(piece, UNK_ID)

    def _is_code(self, token: str) -> bool:
        """Return whether a token before a line is not part of it, e.g. a language code."""
        number = self._processor.piece_to_id(token)
        return bool(self._processor.is_unknown(number)) and not token.startswith("▁")


def _sampling(rate: float) -> dict[str, Any]:
    return {"enable_sampling": True, "alpha": rate, "nbest_size": -1}


def _has_merges(processor: Any) -> bool:
    # The library does not report a model's type, only its abilities: unigram models give the n best
    # segmentations, BPE a random one, models of words and characters neither.
    return _can(processor.encode, **_sampling(0.5)) and not _can(
        processor.nbest_encode, nbest_size=2
    )


def _can(method: Callable[..., object], **options: object) -> bool:
    # Some versions of the library raise an error, others return nothing.
    try:
        return bool(method("a", **options))
    except RuntimeError:
        return False


@dataclass(frozen=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020) with a rate for each side; an ``Augmentation``.

    A sentence keeps its segmentation if it has an unknown token, or would get more than
    ``max_length`` tokens. A side without ``Subwords`` does not change.
    """

    src: Subwords | None
    tgt: Subwords | None
    src_rate: float
    tgt_rate: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same pairs in subwords drawn with ``seed``."""
        return EncodedText(
            self._sample(text.src, self.src, self.src_rate, seed),
            # Draw differently from the source.
            self._sample(text.tgt, self.tgt, self.tgt_rate, seed ^ 1),
        )

    def _sample(
        self, side: TokenArray, subwords: Subwords | None, rate: float, seed: int
    ) -> TokenArray:
        if subwords is None:
            return side
        whole: list[list[int]] = [side[index].tolist() for index in range(len(side))]
        sampled = subwords.sample(whole, rate, seed)
        return TokenArray.from_sentences(
            # Ids do not show which text an unknown token stands for.
            new if len(new) <= self.max_length and UNK_ID not in old else old
            for old, new in zip(whole, sampled, strict=True)
        )


def build_bpe_dropout(
    rates: tuple[float, float], tokenizers: Tokenizers, max_length: int
) -> BpeDropout:
    """Return the BPE-dropout with these rates for the source and the target."""
    src, tgt = (
        _open_subwords(getattr(tokenizers, side), side) if rate else None
        for side, rate in zip(("src", "tgt"), rates, strict=True)
    )
    return BpeDropout(src, tgt, *rates, max_length)


def _open_subwords(tokenizer: Tokenizer, side: str) -> Subwords:
    try:
        return Subwords(tokenizer)
    except ValueError as error:
        raise ConfigError(
            f"training.{side}_bpe_dropout: needs merges to skip, but the tokenizer's model does "
            "not use byte pair encoding (BPE); set it to 0"
        ) from error
