"""A lexical shortlist: the target tokens that each source token may turn into, by IBM's model 1."""

from collections.abc import Iterator, Sequence

import numpy as np

from transformer_cli.data.store import EncodedText

Ids = list[int]
ITERATIONS = 5
PER_TOKEN = 20
"""Candidates of a source token."""
FREQUENT = 100
"""Target tokens that are always candidates, the most frequent ones."""


def learn_shortlist(text: EncodedText, size: int) -> tuple[Ids, dict[int, Ids]]:
    """Return the tokens that are always candidates, and those of each source token.

    Args:
        text: token ids of a training text, without end marks.
        size: ids of either side.
    """
    src, tgt, sentence = (np.concatenate(part) for part in zip(*_pairs(text), strict=True))
    # One entry for each pair of a source and a target token that stand in the same sentence pair.
    entries, entry_of = np.unique(src * size + tgt, return_inverse=True)
    probability = np.ones(len(entries))
    for _ in range(ITERATIONS):
        each = probability[entry_of]
        total = np.bincount(sentence, each)  # of a target token over its sentence's source tokens
        expected = np.bincount(entry_of, each / total[sentence], len(entries))
        by_source = np.bincount(entries // size, expected, size)
        probability = expected / by_source[entries // size]
    frequent = np.bincount(text.tgt.take(np.arange(len(text))).ids, minlength=size)
    return (
        np.argsort(-frequent, kind="stable")[:FREQUENT].tolist(),
        dict(_best(entries // size, entries % size, expected)),
    )


def _pairs(text: EncodedText) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield all pairs of tokens, and the number of their target token in the whole text."""
    first = 0
    for index in range(len(text)):
        src, tgt = text.src[index], text.tgt[index]
        numbers = np.arange(first, first + len(tgt))
        yield (
            np.repeat(src, len(tgt)).astype(np.int64),
            np.tile(tgt, len(src)),
            np.tile(numbers, len(src)),
        )
        first += len(tgt)


def _best(src: np.ndarray, tgt: np.ndarray, expected: np.ndarray) -> Iterator[tuple[int, Ids]]:
    """Yield each source token with its candidates, by expected count."""
    order = np.lexsort((-expected, src))
    firsts = np.unique(src[order], return_index=True)[1]
    for candidates in np.split(order, firsts[1:]):
        yield int(src[candidates[0]]), tgt[candidates[:PER_TOKEN]].tolist()


def vocabulary_map(shortlist: tuple[Ids, dict[int, Ids]], names: Sequence[str]) -> str:
    """Return CTranslate2's ``vmap.txt``."""
    frequent, candidates = shortlist
    lines = [("", frequent), *((names[number], ids) for number, ids in candidates.items())]
    return "".join(f"{name}\t{' '.join(names[number] for number in ids)}\n" for name, ids in lines)
