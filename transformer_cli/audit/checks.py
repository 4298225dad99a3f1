"""Checks of a whole corpus: what is repeated, misaligned, too long or badly encoded."""

import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from transformer_cli.audit.line_checks import Occurrences
from transformer_cli.audit.mistakes import (
    all_copied,
    configured_files,
    same_files,
    swapped_sides,
    trained_text,
)
from transformer_cli.audit.repetition import find_in, find_repeated
from transformer_cli.audit.split_check import SplitCheck
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.data_schema import CopyData, CorpusData
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ConcatenatedSources, PairProgress, PairSource, ParallelFiles
from transformer_cli.data.preparing import prepare_corpus
from transformer_cli.data.selection import NO_DIGEST, Digests
from transformer_cli.data.sources import open_added, open_split, split_names
from transformer_cli.data.token_arrays import PERCENTILES, percentiles
from transformer_cli.errors import CorpusError
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.scripts import has_spaces, scripts_of

ANY_SHARE, STRICT_SHARE, TOLERANT_SHARE = 0.0, 0.001, 0.01
"""Share of a split's pairs from which a finding is a warning: for what should not occur, and for
what any corpus has a little of."""

FINDINGS = (
    "blank",
    "shifted",
    "repeated",
    "in_training",
    "source_in_training",
    "copied",
    "ratio",
    "long",
    *(
        f"{side}_{what}"
        for side in ("source", "target")
        for what in ("script", "odd_characters", "unknown_characters")
    ),
)
"""Names of all findings, as --ignore takes them."""

Unit = Literal["tokens", "words", "characters"]
"""Of lengths; without tokenizers, words between spaces, where both languages have spaces."""


@dataclass(frozen=True)
class Finding:
    """Some pairs of a split that have the same fault."""

    split: str
    what: str
    """One of ``FINDINGS``."""
    text: str
    """Its description in messages."""
    count: int
    share: float
    """Of the split's pairs, from 0 to 1."""
    warning: bool
    """Whether it is a warning, or a note only."""
    places: list[str]
    """The first few: file, line and what is there."""

    def __str__(self) -> str:
        has_more = self.count > len(self.places) and self.what != "shifted"  # a range of lines
        places = "; ".join(self.places) + ("; …" if has_more else "")
        found = f"[{self.what}]: {self.count:,} ({self.share:.2%}): {places}"
        return f"{self.split}: {self.text} {found}"


@dataclass(frozen=True)
class SplitSummary:
    """Size of a split; lengths are its ``PERCENTILES``."""

    name: str
    pairs: int
    src_lengths: list[int]
    tgt_lengths: list[int]


@dataclass(frozen=True)
class CorpusReport:
    """Statistics and findings of a corpus."""

    unit: Unit
    """Unit of the lengths."""
    unknown_scripts: list[str]
    """Languages whose script is unknown, so that wrong scripts cannot be detected."""
    unavailable: list[str]
    """A message for each test split that could not be opened, and so was not checked."""
    splits: list[SplitSummary]
    mistakes: list[str]
    """What can only be a mistake: a file named twice, say."""
    findings: list[Finding]
    ignored: list[str]
    """Names of findings that never count as warnings (--ignore)."""

    @property
    def warnings(self) -> int:
        """Number of findings that are warnings."""
        return sum(finding.warning for finding in self.findings)


def check_corpus(
    config: Config,
    tokenizers: Tokenizers | None,
    progress: PairProgress,
    ignored: Collection[str] = (),
) -> CorpusReport:
    """Check all splits of a configured corpus in one pass each, and return the report.

    Sources of kind corpus are first read, filtered and split as for a training.

    Args:
        config: the experiment's settings.
        tokenizers: the run's; None before they are learned, when lengths are in words or
            characters.
        progress: wraps the iteration over a split's pairs, as tqdm does.
        ignored: names of findings that never count as warnings.

    Raises:
        CorpusError: a split is missing, misaligned, blank, or not UTF-8. A test split that cannot
            be opened is reported as unavailable instead.
    """
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        prepared = Path(directory) / "corpus"
        if isinstance(config.data, CorpusData):
            prepare_corpus(config.data, prepared, progress)
        return _check_splits(config, tokenizers, progress, ignored, prepared)


def _check_splits(
    config: Config,
    tokenizers: Tokenizers | None,
    progress: PairProgress,
    ignored: Collection[str],
    prepared: Path,
) -> CorpusReport:
    unit = _unit(config, tokenizers)
    unavailable: list[str] = []
    training: list[SplitCheck] = []
    scored: list[SplitCheck] = []
    findings: list[Finding] = []
    summaries: list[SplitSummary] = []
    for name, source, trained in _sources(config, unavailable, prepared):
        # How many tokens so many characters are, only a tokenizer tells.
        limit = _limit(config, trained) if unit != "characters" else sys.maxsize
        if isinstance(config.data, CorpusData):
            # Findings name a line of the split, as the files are gone afterwards.
            source = ConcatenatedSources((source,))
        known = None if trained else training
        cut = list if unit == "characters" else str.split
        split = SplitCheck(name, source, config, tokenizers, limit, known, cut)
        split.read(progress)
        findings += _SplitFindings(split, config, limit, tokenizers is not None, ignored).findings()
        lengths = [percentiles(side.length_counts(), PERCENTILES) for side in split.sides]
        summaries.append(SplitSummary(name, split.pairs, *lengths))
        (training if trained else scored).append(split)
    data = config.data
    languages = [] if isinstance(data, CopyData) else [data.src_lang, data.tgt_lang]
    return CorpusReport(
        unit,
        [language for language in languages if scripts_of(language) is None],
        unavailable,
        summaries,
        list(_find_mistakes(config, training, scored)),
        findings,
        sorted(set(ignored)),
    )


def _unit(config: Config, tokenizers: Tokenizers | None) -> Unit:
    if tokenizers is not None:
        return "tokens"
    languages = (config.data.src_lang, config.data.tgt_lang)
    return "words" if all(map(has_spaces, languages)) else "characters"


def _find_mistakes(
    config: Config, training: Sequence[SplitCheck], scored: Sequence[SplitCheck]
) -> Iterator[str]:
    """Yield a message for each thing that ``train`` refuses as it can only be a mistake."""
    data = config.data
    if isinstance(data, CopyData):  # made as it has to be
        return
    trained_on = {split.name: split.source for split in training}
    others = {split.name: split.source for split in scored}
    sources, given = configured_files(data)
    one_language = data.src_lang == data.tgt_lang
    yield from same_files({**trained_on, **sources}, {**others, **given}, one_language)
    yield from swapped_sides({**trained_on, **others}, data.src_lang, data.tgt_lang)
    yield from (all_copied(split.name) for split in (*training, *scored) if split.is_all_copied)
    text = _text(training)
    yield from (
        trained_text(split.name) for split in scored if np.array_equal(_text([split]), text)
    )


def _text(splits: Iterable[SplitCheck]) -> np.ndarray:
    """Return the digests of all pairs with text on both sides."""
    digests: np.ndarray = np.concatenate([split.pair_digests.numbers for split in splits])
    known: np.ndarray = digests[digests != NO_DIGEST]
    return known


def _sources(
    config: Config, unavailable: list[str], prepared: Path
) -> Iterator[tuple[str, PairSource, bool]]:
    """Yield (name, text, whether it is trained on) of each split and each source added to train.

    Args:
        config: the experiment's settings.
        unavailable: a message is appended for each test split that cannot be opened.
        prepared: directory of the prepared corpus, for kind corpus.
    """
    data = config.data
    train, val, *tests = split_names(data)
    yield train, open_split(data, train, prepared), True
    for name, source in open_added(data).items():
        yield name, source, True
    yield val, open_split(data, val, prepared), False
    for name in tests:
        try:
            source = open_split(data, name, prepared)
        except CorpusError as error:
            unavailable.append(f"{name}: not checked: {error}")
        else:
            yield name, source, False


def _limit(config: Config, trained: bool) -> int:
    """Return the maximum tokens per side of a pair that is neither left out nor split."""
    if trained:
        return config.training.max_length
    positions = config.model.max_positions if config.model.positions == "learned" else None
    return LONGEST_SOURCE if positions is None else min(LONGEST_SOURCE, positions - 1)


@dataclass(frozen=True)
class _SplitFindings:
    """Turns the checks of a split into findings."""

    split: SplitCheck
    config: Config
    limit: int
    has_tokenizer: bool
    ignored: Collection[str]

    def findings(self) -> list[Finding]:
        return [finding for finding in self._find_all() if finding.count]

    def _find_all(self) -> Iterator[Finding]:
        split = self.split
        yield self._report(
            "blank", "pairs with a blank side, not used in training", STRICT_SHARE, split.blank
        )
        shifted = split.find_shifted()
        yield self._report("shifted", "lines shifted against each other", ANY_SHARE, shifted)
        again = [(index, split, first) for index, first in find_repeated(split.pair_digests)]
        yield self._report_duplicates("repeated", "pairs that occur earlier", TOLERANT_SHARE, again)
        if split.training is not None:
            pairs = self._find_trained_on(
                split.pair_digests, [t.pair_digests for t in split.training]
            )
            yield self._report_duplicates(
                "in_training", "pairs that are trained on too", STRICT_SHARE, pairs
            )
            sources = self._find_trained_on(
                split.src_digests, [t.src_digests for t in split.training]
            )
            yield self._report_duplicates(
                "source_in_training", "sources that are trained on", TOLERANT_SHARE, sources
            )
        yield self._report(
            "copied", "pairs whose target is their source", TOLERANT_SHARE, split.copied
        )
        yield self._report(
            "ratio",
            "pairs with an unusual length ratio",
            STRICT_SHARE,
            split.find_length_ratio_outliers(),
        )
        yield self._report("long", *self._too_long(), split.long)
        yield from self._find_in_sides()

    def _too_long(self) -> tuple[str, float]:
        over = f"pairs of more than {self.limit:,} {'tokens' if self.has_tokenizer else 'words'}"
        if self.split.training is None:
            return f"{over} (training.max_length), not used in training", TOLERANT_SHARE
        if self.config.model.positions == "learned" and self.split.name == "val":
            return f"{over} (model.max_positions): training will refuse them", ANY_SHARE
        return f"{over}, translated in pieces and not in the perplexity", STRICT_SHARE

    def _find_in_sides(self) -> Iterator[Finding]:
        data = self.config.data
        whose = "the vocabulary" if self.has_tokenizer else "the training text"
        for number, name in enumerate(("source", "target")):
            lines = self.split.sides[number].lines
            language = (data.src_lang, data.tgt_lang)[number]
            for what, text, threshold, hits in (
                (
                    "script",
                    f"lines mostly in no script of '{language}'",
                    STRICT_SHARE,
                    lines.foreign,
                ),
                ("odd_characters", "lines with odd characters", STRICT_SHARE, lines.odd),
                (
                    "unknown_characters",
                    f"lines with characters that {whose} lacks",
                    TOLERANT_SHARE,
                    lines.lacking,
                ),
            ):
                yield self._report(f"{name}_{what}", f"{name} {text}", threshold, hits, number)

    def _report(
        self, what: str, text: str, threshold: float, hits: Occurrences, side: int = 0
    ) -> Finding:
        places = [
            _place(self.split, index, side) + (f" ({detail})" if detail else "")
            for index, detail in hits.first
        ]
        return self._build(what, text, threshold, hits.count, places)

    def _report_duplicates(
        self, what: str, text: str, threshold: float, found: Sequence[tuple[int, SplitCheck, int]]
    ) -> Finding:
        """Return a finding of (index, split of the first equal line, its index there) triples."""
        places = [
            f"{_place(self.split, index)} (as {_line(self.split, other, like)})"
            for index, other, like in found[: Occurrences.SHOWN]
        ]
        return self._build(what, text, threshold, len(found), places)

    def _build(
        self, what: str, text: str, threshold: float, count: int, places: list[str]
    ) -> Finding:
        assert what in FINDINGS
        share = count / self.split.pairs
        warning = share >= threshold and what not in self.ignored
        return Finding(self.split.name, what, text, count, share, warning, places)

    def _find_trained_on(
        self, own: Digests, training: Iterable[Digests]
    ) -> list[tuple[int, SplitCheck, int]]:
        assert self.split.training is not None
        first: dict[int, tuple[SplitCheck, int]] = {}
        for split, digests in zip(self.split.training, training, strict=True):
            for index, like in find_in(own, digests):
                first.setdefault(index, (split, like))
        return [(index, *first[index]) for index in sorted(first)]


def _line(split: SplitCheck, other: SplitCheck, index: int) -> str:
    return f"line {index + 1}" if other is split else f"line {index + 1} of {other.name}"


def _place(split: SplitCheck, index: int, side: int = 0) -> str:
    if not isinstance(split.source, ParallelFiles):
        return f"{split.name}:{index + 1}"
    path = (split.source.src, split.source.tgt)[side]
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{os.fspath(shown)}:{index + 1}"
