"""Noise in the training text: pairs are decoded, changed and encoded again in each epoch."""

from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from random import Random

from transformer_cli.base import registry
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.noise.rules import Context, Pair
from transformer_cli.text.protocol import UNK_ID, Tokenizers

_Ids = tuple[list[int], list[int]]


class NoisyText:
    """Noise for the share of pairs that ``shares`` sets for each rule; an ``Augmentation``.

    A pair does not change if it has unknown or reserved tokens, except for a tag, or if a side
    would get more than ``max_length`` tokens.
    """

    def __init__(
        self,
        shares: Mapping[str, float],
        languages: tuple[str, str],
        tokenizers: Tokenizers,
        max_length: int,
    ) -> None:
        names = sorted(shares)
        known = registry.all_entries("noise rule")
        self._rules = [known[name].load() for name in names]
        self._bounds = list(accumulate(shares[name] for name in names))
        self._languages = languages
        self._tokenizers = tokenizers
        self._max_length = max_length

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same pairs, some of them with noise that depends on ``seed``."""
        random = Random(f"noise {seed}")
        src, tgt = ([side[n].tolist() for n in range(len(text))] for side in (text.src, text.tgt))
        places = [bisect(self._bounds, random.random()) for _ in src]
        for number, place in enumerate(places):
            if place < len(self._rules):
                other = random.randrange(len(src) - 1) if len(src) > 1 else 0
                other += other >= number  # any other pair, or none
                behind = (src[other], tgt[other]) if other < len(src) else ([], [])
                pair = self._noisy(place, (src[number], tgt[number]), behind, random)
                src[number], tgt[number] = pair
        return EncodedText(TokenArray.from_sentences(src), TokenArray.from_sentences(tgt))

    def _noisy(self, place: int, pair: _Ids, other: _Ids, random: Random) -> _Ids:
        """Return a pair's ids after a rule; the same ids if the pair cannot change."""
        (tag, plain), (tag_behind, behind) = map(self._split_tag, (pair[0], other[0]))
        text = self._decode((plain, pair[1]))
        if text is None:
            return pair
        following = self._decode((behind, other[1])) if tag == tag_behind else None
        context = Context(*self._languages, random, following or Pair("", ""))
        changed = self._rules[place](text, context)
        src = tag + self._tokenizers.src.encode(changed.src)
        tgt = self._tokenizers.tgt.encode(changed.tgt)
        is_valid = src and tgt and max(len(src), len(tgt)) <= self._max_length
        # The search never writes unknown words.
        return (src, tgt) if is_valid and UNK_ID not in tgt else pair

    def _split_tag(self, ids: list[int]) -> tuple[list[int], list[int]]:
        """Return the tag in front of a source, if there is one, and the rest."""
        has_tag = bool(ids) and ids[0] in self._tokenizers.src.source_ids
        return ids[:has_tag], ids[has_tag:]

    def _decode(self, pair: _Ids) -> Pair | None:
        """Return the text of a pair, or None if ids do not show what they stand for."""
        sides = [*zip((self._tokenizers.src, self._tokenizers.tgt), pair, strict=True)]
        if any(UNK_ID in ids or max(ids, default=0) >= side.text_size for side, ids in sides):
            return None
        return Pair(*(side.decode(ids) for side, ids in sides))
