"""Seeded text that looks like captions to a tokenizer: Zipf's words, lengths as people write."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

# A word is its rank written in syllables, so frequent words are short, and no two are alike.
ONSETS = {"de": [*"bdfghklmnrstwz", "sch"], "en": [*"bcdfghlmnprstw"]}
RIMES = {"de": [*"aeiou", "en", "er", "ein"], "en": [*"aeiou", "ing", "ea"]}
WORD_TYPES = 100_000
# Sentences have 12 words on average and seldom more than 30, as captions and short news have.
LENGTH_SHAPE, LENGTH_SCALE = 6.0, 2.0
_CHUNK = 10_000


def write_pairs(src: Path, tgt: Path, pairs: int, seed: int) -> None:
    """Write two aligned files, holding little of them at a time.

    Args:
        src: path of the side that looks German.
        tgt: path of the side that looks English, with about as many words a line.
        pairs: lines of each.
        seed: of all draws.
    """
    random = np.random.default_rng(seed)
    src_words, tgt_words = (
        np.array([word(rank, lang) for rank in range(WORD_TYPES)]) for lang in ("de", "en")
    )
    with src.open("w", encoding="utf-8") as src_file, tgt.open("w", encoding="utf-8") as tgt_file:
        for start in range(0, pairs, _CHUNK):
            count = min(_CHUNK, pairs - start)
            lengths = 1 + random.gamma(LENGTH_SHAPE, LENGTH_SCALE, count).astype(np.int64)
            src_file.writelines(_sentences(random, src_words, lengths))
            lengths = np.maximum(1, lengths + random.integers(-2, 3, count))
            tgt_file.writelines(_sentences(random, tgt_words, lengths))


def word(rank: int, lang: str) -> str:
    """The word of a frequency rank from 0 on."""
    syllables = [onset + rime for rime in RIMES[lang] for onset in ONSETS[lang]]
    written = ""
    rank += 1
    while rank:
        rank, last = divmod(rank - 1, len(syllables))
        written = syllables[last] + written
    return written


def _sentences(
    random: np.random.Generator, words: np.ndarray, lengths: np.ndarray
) -> Iterator[str]:
    """Sentences of these lengths, their words drawn by Zipf's law with Mandelbrot's shift."""
    up_to = np.cumsum(1.0 / (np.arange(len(words)) + 2.7))
    ranks = np.searchsorted(up_to, random.random(int(lengths.sum())) * up_to[-1])
    for ranks_of_one in np.split(ranks, np.cumsum(lengths)[:-1]):
        yield f"{' '.join(words[ranks_of_one]).capitalize()} .\n"
