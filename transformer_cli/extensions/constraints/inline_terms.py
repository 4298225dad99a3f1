"""Terms in training: replace some words of a source sentence with their translations.

This teaches a model to use given terms (Dinu et al. 2019). Terms stand between two marker tokens:
'Ein ⟨term⟩ package ⟨end⟩ fehlt'. The original source words are left out, as a model that sees them
would translate them as usual. To find which words correspond, the tokens of each pair are aligned,
with probabilities that IBM model 1 (Brown et al. 1993) has learned in both directions.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from transformer_cli.data.store import EncodedStore, EncodedText, TokenArray
from transformer_cli.extensions.constraints.reserved import ReservedTokenizer
from transformer_cli.extensions.verbatim.characters import SPACELESS

MOST_WORDS = 3  # in a term; its translation may have one more
_MOST_TERMS = 3  # in a line
# The most frequent tokens that start words: 'the' and 'of' neither begin nor end a term.
_FREQUENT = 25
# Matches a token that starts a word.
_BEGINNING = re.compile(f"▁|[{SPACELESS}]")
# The share of capitalized translations at the start of a line to lowercase, as most terms in a list
# are not capitalized.
_LOWERED = 0.5
_ITERATIONS = 5  # of IBM model 1
_MOST_PLACES = 8_000_000
"""The maximum number of token pairs (source, target) to learn from; learning takes 0.5 GB."""
_LONGEST = 60  # tokens on a side of a pair to learn from
_LEAST = 1e-3  # smaller probabilities are dropped


@dataclass(frozen=True)
class InlineTerms:
    """A ``batches.Augmentation`` that puts terms into a fraction (``share``) of the sources."""

    tokenizer: ReservedTokenizer  # of both sides
    lexicon: "Lexicon"
    share: float
    max_length: int

    def __call__(self, text: EncodedText, seed: int) -> EncodedText:
        """Return the same pairs with terms in randomly drawn source sentences."""
        random = np.random.Generator(np.random.PCG64(seed))
        is_drawn = (random.random(len(text)) < self.share).tolist()
        sources: list[list[int]] = []
        for place, has_terms in enumerate(is_drawn):
            source = text.src[place].tolist()
            row = self._put_terms(text.src[place], text.tgt[place], random) if has_terms else source
            sources.append(row if len(row) <= self.max_length else source)
        return EncodedText(TokenArray.from_sentences(sources), text.tgt)

    def _put_terms(
        self, src: np.ndarray, tgt: np.ndarray, random: np.random.Generator
    ) -> list[int]:
        """Replace up to three source phrases with their translations between marker tokens."""
        phrases: list[tuple[slice, slice]] = []
        most = int(random.integers(1, _MOST_TERMS + 1))
        for own, translation in self.find_phrases(src, tgt, random):
            if all(own.stop <= used.start or used.stop <= own.start for used, _ in phrases):
                phrases.append((own, translation))
                if len(phrases) == most:
                    break
        before, behind = self.tokenizer.term_marks
        row: list[int] = []
        place = 0
        for own, translation in sorted(phrases, key=lambda phrase: phrase[0].start):
            begins_line = translation.start == 0
            target = self._encode_alone(tgt[translation].tolist(), begins_line, random)
            row += [*src[place : own.start].tolist(), before, *target, behind]
            place = own.stop
        return [*row, *src[place:].tolist()]

    def _encode_alone(
        self, ids: list[int], begins_line: bool, random: np.random.Generator
    ) -> list[int]:
        """Return the ids of a translation encoded by itself, as ``translate`` encodes terms."""
        text = self.tokenizer.decode(ids)
        if begins_line and text[1:].islower() and random.random() < _LOWERED:
            text = text[:1].lower() + text[1:]
        return self.tokenizer.encode(text)

    def find_phrases(
        self, src: np.ndarray, tgt: np.ndarray, random: np.random.Generator
    ) -> Iterator[tuple[slice, slice]]:
        """Yield spans of source words and of their translations, in random order of the words.

        They are phrase pairs (Koehn et al. 2003): no word is aligned with a word outside the pair.
        """
        to_src, to_tgt = self.lexicon.align(src, tgt)
        tgt_edges = self._edges(tgt)
        for own in self._draw_words(src, random):
            linked = np.append(np.flatnonzero(_is_in(to_src, own)), to_tgt[own])
            linked = linked[linked >= 0]
            if not len(linked):
                continue
            found = slice(int(linked.min()), int(linked.max()) + 1)
            back = to_src[found]
            is_phrase = (
                tgt_edges[found.start]
                and tgt_edges[found.stop]
                and tgt_edges[found].sum() <= MOST_WORDS + 1
                and self._is_word[tgt[found]].all()
                and _is_in(back[back >= 0], own).all()
                and _is_in(np.flatnonzero(_is_in(to_tgt, found)), own).all()
            )
            if is_phrase:
                yield own, found

    def _draw_words(self, src: np.ndarray, random: np.random.Generator) -> Iterator[slice]:
        """Yield spans of one to three neighbouring words, in random order.

        A span's first and last words are rare, and it has no punctuation or placeholder tokens.
        """
        places = np.flatnonzero(self._edges(src)).tolist()
        is_word, is_rare = self._is_word[src], self._is_rare[src]
        for number in random.permutation((len(places) - 1) * MOST_WORDS).tolist():
            first, more = divmod(number, MOST_WORDS)
            if first + more + 1 < len(places):
                last = slice(places[first + more], places[first + more + 1])
                own = slice(places[first], last.stop)
                has_rare = is_rare[own.start : places[first + 1]].any() and is_rare[last].any()
                if has_rare and is_word[own].all():
                    yield own

    def _edges(self, ids: np.ndarray) -> np.ndarray:
        """Return a mask of word boundaries among the ``len(ids) + 1`` gaps around the tokens."""
        is_sign = ~self._is_word[ids]
        edges = np.ones(len(ids) + 1, bool)
        edges[1:-1] = self._begins[ids[1:]] | is_sign[1:] | is_sign[:-1]
        return edges

    @cached_property
    def _begins(self) -> np.ndarray:
        """Whether each id starts a word."""
        return self._by_id(lambda token: bool(_BEGINNING.match(token)))

    @cached_property
    def _is_word(self) -> np.ndarray:
        """Whether each id is part of a word rather than a punctuation mark or reserved token."""
        return self._by_id(lambda token: token.removeprefix("▁").isalnum())

    @cached_property
    def _is_rare(self) -> np.ndarray:
        """Whether each id starts a word, has only letters and is not one of the most frequent."""
        is_rare: np.ndarray = self._begins & self._by_id(
            lambda token: token.removeprefix("▁").isalpha()
        )
        frequent_first = np.argsort(-self.lexicon.frequency * is_rare, kind="stable")
        is_rare[frequent_first[:_FREQUENT]] = False
        return is_rare

    def _by_id(self, judge: Callable[[str], bool]) -> np.ndarray:
        """Return the result of ``judge`` for each id's token; False for reserved tokens."""
        of_text = map(self.tokenizer.token, range(self.tokenizer.text_size))
        reserved = [False] * (self.tokenizer.size - self.tokenizer.text_size)
        return np.array([*map(judge, of_text), *reserved])


def _is_in(places: np.ndarray, span: slice) -> np.ndarray:
    is_in: np.ndarray = (span.start <= places) & (places < span.stop)
    return is_in


# --- which token translates which -----------------------------------------------------------------
# Deterministic: one thread adds up numbers in a fixed order.


@dataclass(frozen=True)
class TranslationTable:
    """Probabilities of tokens given a token of the other language; sparse, with sorted keys."""

    keys: np.ndarray
    probabilities: np.ndarray
    size: int  # of both vocabularies; as the id of a given token, it stands for no token

    @classmethod
    def learn(cls, text: EncodedText, size: int) -> "TranslationTable":
        """Learn the probabilities of target tokens given source tokens, with IBM model 1."""
        given, rows, counts = _cross(text, size)
        keys, places = np.unique(given * size + rows, return_inverse=True)
        starts = np.cumsum(counts) - counts
        of_given = keys // size
        probabilities: np.ndarray = np.ones(len(keys))
        for _ in range(_ITERATIONS):
            weights = probabilities[places]
            weights /= np.repeat(np.add.reduceat(weights, starts), counts)
            counted = np.bincount(places, weights, minlength=len(keys))
            probabilities = counted / np.bincount(of_given, counted)[of_given]
        is_kept = probabilities >= _LEAST
        return cls(keys[is_kept], probabilities[is_kept], size)

    def align(self, given: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return, for each token of ``rows``, the index of its likeliest ``given`` token, or -1."""
        if not len(self.keys):  # all pairs were too long to learn from
            return np.full(len(rows), -1)
        wanted = np.append(given, self.size)[:, None] * self.size + rows
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = np.where(self.keys[places] == wanted, self.probabilities[places], 0.0)
        best = found.argmax(axis=0)
        is_none = (best == len(given)) | (found.max(axis=0, initial=0.0) == 0)
        return np.where(is_none, -1, best)


@dataclass(frozen=True)
class Lexicon:
    """Token frequencies, and translation tables in both directions for aligning tokens."""

    forward: TranslationTable
    backward: TranslationTable
    frequency: np.ndarray  # the share of each id among the source's tokens

    @classmethod
    def learn(cls, text: EncodedText, size: int) -> "Lexicon":
        """Learn from pairs with tokens on both sides; ``size`` is the size of both vocabularies."""
        swapped = EncodedText(text.tgt, text.src)
        counts = np.bincount(text.src.ids, minlength=size)
        frequency = counts / max(1, counts.sum())
        return cls(
            TranslationTable.learn(text, size), TranslationTable.learn(swapped, size), frequency
        )

    def align(self, src: np.ndarray, tgt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each target token's source index, and each source token's target index, or -1."""
        return self.forward.align(src, tgt), self.backward.align(tgt, src)


def sample_pairs(store: EncodedStore) -> EncodedText:
    """Return short pairs from evenly spaced pages of a store, few enough for ``Lexicon.learn``."""
    places = 0.0
    for lengths in store.read_lengths(range(store.num_pages)):
        src, tgt = (np.minimum(side, _LONGEST).astype(float) for side in lengths)
        places += (src * tgt).sum()
    step = int(np.ceil(places / _MOST_PLACES)) or 1
    pages = list(store.read_pages(range(0, store.num_pages, step)))
    text = EncodedText(
        TokenArray.concatenate([page.src for page in pages]),
        TokenArray.concatenate([page.tgt for page in pages]),
    )
    is_short = np.maximum(*text.lengths) <= _LONGEST
    return text.take(np.flatnonzero(is_short & (np.minimum(*text.lengths) > 0)))


def _cross(text: EncodedText, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Combine each target token with each source token of its pair, and with 'no token'.

    Returns the combinations' source tokens and target tokens, and how many each target token has.
    """
    src_lengths, tgt_lengths = text.lengths
    ends = np.cumsum(src_lengths)
    ids = np.insert(text.src.ids.astype(np.int64), ends, size)  # no token, after each source
    starts = ends - src_lengths + np.arange(len(ends))
    counts = np.repeat(src_lengths + 1, tgt_lengths)
    first = np.repeat(starts, tgt_lengths)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ids[np.repeat(first, counts) + within], np.repeat(text.tgt.ids, counts), counts
