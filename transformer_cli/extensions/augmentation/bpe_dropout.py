"""BPE-dropout: skips random merges, so that the text has different subwords in each epoch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, chain, groupby, islice
from random import Random
from typing import Any

import sentencepiece

from transformer_cli.base.errors import ConfigError
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.text.protocol import SPECIALS, UNK_ID, Tokenizer, Tokenizers


class Subwords:
    """The subwords and merges of a tokenizer's SentencePiece model, for dividing text at random.

    Raises ValueError if the tokenizer has no such model, or if the model has no merges to skip. If
    the model marks pieces as unused, the result may differ from what SentencePiece would return.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.sentencepiece_model
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        if model is None or not _has_merges(processor):
            raise ValueError("there are no merges")
        # By text, because a tokenizer may have its own table of ids. Text must not become a special
        # token, even if it spells one.
        numbers = range(len(SPECIALS), tokenizer.text_size)
        self._ids = {tokenizer.token(number): number for number in numbers}
        self._ranks = {piece: rank for piece, rank in _ranks(processor) if piece in self._ids}
        # Ids to divide again. Others, such as bytes and language codes, stay as they are.
        self._texts = {
            number: piece
            for piece, number in self._ids.items()
            if piece in self._ranks and self._ranks.keys() >= set(piece)
        }
        crossing = any("▁" in piece[1:] for piece in self._ranks)
        begins = {number for number, piece in self._texts.items() if piece.startswith("▁")}
        self._begins = set() if crossing else begins

    def sample(self, sentences: Sequence[list[int]], rate: float, seed: int) -> list[list[int]]:
        """Return the ids of the sentences in different, mostly shorter subwords; keep reserved ids.

        ``rate`` is the probability of skipping a merge.
        """
        draw = Random(seed).random
        # For one merge after another: whether to make it.
        draws = iter(lambda: draw() >= rate, None)
        return [
            [number for word in self._words(ids) for number in self._resample(word, draws)]
            for ids in sentences
        ]

    def _words(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """Split ids where no merge crosses: between words, if the model marks where words begin."""
        starts = accumulate(map(self._begins.__contains__, ids))
        parts = groupby(
            zip(ids, starts, strict=True), lambda each: (each[0] in self._texts, each[1])
        )
        for _, part in parts:
            yield [number for number, _ in part]

    def _resample(self, ids: list[int], draws: Iterator[bool]) -> Sequence[int]:
        if ids[0] not in self._texts:
            return ids
        text = "".join(map(self._texts.__getitem__, ids))
        # Each merge has made one piece out of two.
        first = list(islice(draws, len(text) - len(ids)))
        if all(first):
            return ids
        return [self._ids[piece] for piece in self._merge(text, chain(first, draws))]

    def _merge(self, text: str, draws: Iterator[bool]) -> Iterator[str]:
        """Yield a text's subwords: merge as SentencePiece does, but skip where a draw is False.

        SentencePiece itself can skip merges too, but since version 0.2.2, it ignores the seed.
        """
        # Each piece is at the place of its first character; other places are empty.
        pieces = list(text)
        end = len(pieces)
        before, after = list(range(-1, end)), list(range(1, end + 1))
        merges: list[tuple[float, int, int, str]] = []

        def find(left: int, right: int) -> None:
            if left >= 0 and right < end:
                merged = pieces[left] + pieces[right]
                if (rank := self._ranks.get(merged)) is not None:
                    heappush(merges, (rank, left, right, merged))

        for right in range(1, end):
            find(right - 1, right)
        while merges:
            _, left, right, merged = heappop(merges)
            # Another merge may have taken one of them.
            is_there = pieces[left] and pieces[right]
            if is_there and len(pieces[left]) + len(pieces[right]) == len(merged) and next(draws):
                pieces[left], pieces[right] = merged, ""
                after[left] = after[right]
                before[after[left]] = left
                find(before[left], left)
                find(left, after[left])
        return filter(None, pieces)


def _ranks(processor: Any) -> Iterator[tuple[str, float]]:
    """Yield (subword, rank) for single characters and merged subwords; merge low ranks first."""
    others = (processor.is_control, processor.is_unknown, processor.is_unused, processor.is_byte)
    for number in range(processor.get_piece_size()):
        if any(is_other(number) for is_other in others):
            continue
        piece = processor.id_to_piece(number)
        # Without merges, text consists of characters and of pieces that cannot be divided.
        if len(piece) == 1 or piece not in _sampled(processor, piece, 1.0):
            yield piece, -processor.get_score(number)


def _has_merges(processor: Any) -> bool:
    # The library does not report a model's type, only its abilities: unigram models give the n best
    # segmentations, BPE a random one, models of words and characters neither.
    return _can(lambda: _sampled(processor, "a", 0.5)) and not _can(
        lambda: processor.nbest_encode("a", nbest_size=2)
    )


def _can(do: Callable[[], object]) -> bool:
    # Some versions of the library raise an error, others return nothing.
    try:
        return bool(do())
    except RuntimeError:
        return False


def _sampled(processor: Any, text: str, rate: float) -> list[str]:
    sampling = {"enable_sampling": True, "alpha": rate, "nbest_size": -1}
    pieces: list[str] = processor.encode(text, out_type=str, **sampling)
    return pieces


@dataclass(frozen=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020) with one rate per language; an ``Augmentation``.

    A sentence does not change if it has an unknown token, or if it would get more than
    ``max_length`` tokens. If ``src`` or ``tgt`` is None, no source or target sentence changes.
    """

    src: Subwords | None
    tgt: Subwords | None
    src_rate: float
    tgt_rate: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same sentence pairs in random subwords, which depend on ``seed``."""
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
    """Return a ``BpeDropout`` with these rates, one for the source and one for the target."""
    opened: list[Subwords | None] = []
    for side, rate in zip(("src", "tgt"), rates, strict=True):
        try:
            opened.append(Subwords(getattr(tokenizers, side)) if rate else None)
        except ValueError as error:
            raise ConfigError(
                f"training.{side}_bpe_dropout: needs merges to skip, but the tokenizer's model "
                "does not use byte pair encoding (BPE); set it to 0"
            ) from error
    src, tgt = opened
    return BpeDropout(src, tgt, *rates, max_length)
