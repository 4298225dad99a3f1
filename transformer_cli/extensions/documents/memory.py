"""A translation memory, which finds human translations of the same or a similar text."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Self

from transformer_cli.base.errors import UsageError
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.documents.document import SOFT_HYPHEN, Match, without_controls

FUZZY_PERCENT = 75  # least similarity of a source that is worth showing to a person
MOST_PAIRS = 2_000_000  # pairs in a memory; each takes about 300 bytes


class Memory:
    """A translation memory: pairs of source and translation, held in RAM."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        translations: dict[str, Counter[str]] = {}
        for number, (src, tgt) in enumerate(pairs):
            if number == MOST_PAIRS:
                raise UsageError(f"--memory: more than {MOST_PAIRS:,} pairs; give fewer")
            if src.strip() and tgt.strip():
                of_source = translations.setdefault(_normalise(src), Counter())
                of_source[without_controls(tgt).strip()] += 1
        # Use the most frequent translation; among equals, Counter keeps the first.
        self._pairs = {src: each.most_common(1)[0][0] for src, each in translations.items()}
        self._sources = list(self._pairs)
        self._process = import_extra("rapidfuzz.process", "documents", "--memory")
        self._scorer = import_extra("rapidfuzz.fuzz", "documents", "--memory").ratio

    @classmethod
    @lru_cache(maxsize=1)  # reused for many files while the version stays the same
    def read(cls, paths: tuple[Path, ...], src_lang: str, tgt_lang: str, version: str = "") -> Self:
        """Read the pairs of TMX, PO or TSV files; raise a CorpusError if one cannot be read."""
        readers = [open_source(source_of_file(path), src_lang, tgt_lang) for path in paths]
        return cls(pair for reader in readers for pair in reader.pairs())

    def find(self, text: str) -> Match | None:
        """Return the pair with the most similar source (rapidfuzz's ``ratio``); None below 75 %."""
        text = _normalise(text)
        if text in self._pairs:
            return Match(text, self._pairs[text], 100)
        found = self._process.extractOne(
            text, self._sources, scorer=self._scorer, score_cutoff=FUZZY_PERCENT
        )
        if found is None:
            return None
        src, similarity, _ = found
        return Match(src, self._pairs[src], min(int(similarity), 99))


def _normalise(text: str) -> str:
    return " ".join(without_controls(text).replace(SOFT_HYPHEN, "").split())
