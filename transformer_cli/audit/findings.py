"""What ``check`` reports of a corpus: findings in each split, and what each filter would reject.

The rules that say what is wrong with a pair are those of ``data/filters/rules.py``.
"""

import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from transformer_cli.audit.split_check import Occurrences, SplitCheck, find_in, find_repeated
from transformer_cli.audit.text_audit import (
    all_copied,
    configured_files,
    same_files,
    swapped_sides,
    trained_text,
)
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.data_schema import CopyData, CorpusData, FilterName
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.digests import NO_DIGEST, Digests
from transformer_cli.data.filters.filter_pass import Filter, FilterPass
from transformer_cli.data.filters.rules import (
    FILTER_NAMES,
    STRICT_SHARE,
    TOLERANT_SHARE,
    WARNING_SHARES,
    build_filters,
)
from transformer_cli.data.lengths import PERCENTILES, percentiles
from transformer_cli.data.preparing import prepare_corpus
from transformer_cli.data.readers.opening import open_source
from transformer_cli.data.sources import open_added, open_split, split_names
from transformer_cli.data.streamed import ConcatenatedSources, PairProgress, PairSource
from transformer_cli.errors import CorpusError, MissingExtraError
from transformer_cli.text.scripts import has_spaces, scripts_of
from transformer_cli.text.tokenizer import Tokenizers

FINDINGS = (
    *WARNING_SHARES,
    "shifted",
    "in_training",
    "source_in_training",
    "long",
    *(
        f"{side}_{what}"
        for side in ("source", "target")
        for what in ("odd_characters", "unknown_characters")
    ),
)
"""Names of all findings, as --ignore takes them; the first are rules' names."""

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
        return (
            f"{self.split}: {self.text} [{self.what}]: {self.count:,} ({self.share:.2%}): {places}"
        )


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
    data = config.data
    unit: Unit = "characters"
    if tokenizers is not None:
        unit = "tokens"
    elif has_spaces(data.src_lang) and has_spaces(data.tgt_lang):
        unit = "words"
    unavailable: list[str] = []
    training: list[SplitCheck] = []
    scored: list[SplitCheck] = []
    findings: list[Finding] = []
    summaries: list[SplitSummary] = []
    for name, source, is_trained in _sources(config, unavailable, prepared):
        # How many tokens so many characters are, only a tokenizer tells.
        limit = _limit(config, is_trained) if unit != "characters" else sys.maxsize
        if isinstance(data, CorpusData):
            # Findings name a line of the split, as the files are gone afterwards.
            source = ConcatenatedSources((source,))
        known = None if is_trained else training
        cut = list if unit == "characters" else str.split
        split = SplitCheck(name, source, config, tokenizers, limit, known, cut)
        split.read(progress)
        for what, text, share, count, places in _find(split, config, limit, unit):
            if count:
                is_warning = count >= share * split.pairs and what not in ignored
                part = count / split.pairs
                findings.append(Finding(name, what, text, count, part, is_warning, places))
        lengths = [percentiles(side.length_counts(), PERCENTILES) for side in split.sides]
        summaries.append(SplitSummary(name, split.pairs, *lengths))
        (training if is_trained else scored).append(split)
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


def _limit(config: Config, is_trained: bool) -> int:
    """Return the maximum tokens per side of a pair that is neither left out nor split."""
    if is_trained:
        return config.training.max_length
    positions = config.model.max_positions if config.model.positions == "learned" else None
    return LONGEST_SOURCE if positions is None else min(LONGEST_SOURCE, positions - 1)


# --- mistakes -------------------------------------------------------------------------------------


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


# --- findings -------------------------------------------------------------------------------------

_Candidate = tuple[str, str, float, int, list[str]]
"""Name, description, share of the pairs from which it is a warning, count, and first places."""


def _find(split: SplitCheck, config: Config, limit: int, unit: Unit) -> Iterator[_Candidate]:
    """Yield all that is looked for in a split, found or not."""
    for place, mask in enumerate(split.rules.rejected()):
        rule = split.rules.filters[place]
        share, text = WARNING_SHARES[rule.name], f"pairs where {rule.summary}"
        if rule.name == "duplicates":
            again = [(index, split, first) for index, first in find_repeated(split.pair_digests)]
            yield _like_others(split, rule.name, text, share, again)
        else:
            details = split.rules.details(place)
            indices = np.flatnonzero(mask).tolist()
            first = [(index, details.get(index, "")) for index in indices[: Occurrences.SHOWN]]
            yield _occurring(split, rule.name, text, share, Occurrences(len(indices), first))
    shifted = split.find_shifted()
    yield _occurring(split, "shifted", "lines shifted against each other", 0.0, shifted)
    if split.training is not None:
        pairs = _find_trained_on(
            split.training, split.pair_digests, [part.pair_digests for part in split.training]
        )
        text = "pairs that are trained on too"
        yield _like_others(split, "in_training", text, STRICT_SHARE, pairs)
        sources = _find_trained_on(
            split.training, split.src_digests, [part.src_digests for part in split.training]
        )
        text = "sources that are trained on"
        yield _like_others(split, "source_in_training", text, TOLERANT_SHARE, sources)
    long_text, share = _too_long(split, config, limit, "tokens" if unit == "tokens" else "words")
    yield _occurring(split, "long", long_text, share, split.long)
    whose = "the vocabulary" if unit == "tokens" else "the training text"
    for side, name in enumerate(("source", "target")):
        odd, lacking = split.sides[side].odd, split.sides[side].lacking
        text = f"{name} lines with odd characters"
        yield _occurring(split, f"{name}_odd_characters", text, STRICT_SHARE, odd, side)
        text = f"{name} lines with characters that {whose} lacks"
        yield _occurring(split, f"{name}_unknown_characters", text, TOLERANT_SHARE, lacking, side)


def _too_long(split: SplitCheck, config: Config, limit: int, unit: str) -> tuple[str, float]:
    over = f"pairs of more than {limit:,} {unit}"
    if split.training is None:
        return f"{over} (training.max_length), not used in training", TOLERANT_SHARE
    if config.model.positions == "learned" and split.name == "val":
        return f"{over} (model.max_positions): training will refuse them", 0.0
    return f"{over}, translated in pieces and not in the perplexity", STRICT_SHARE


def _occurring(
    split: SplitCheck, what: str, text: str, share: float, hits: Occurrences, side: int = 0
) -> _Candidate:
    places = [
        _place(split, index, side) + (f" ({detail})" if detail else "")
        for index, detail in hits.first
    ]
    return what, text, share, hits.count, places


def _like_others(
    split: SplitCheck,
    what: str,
    text: str,
    share: float,
    hits: Sequence[tuple[int, SplitCheck, int]],
) -> _Candidate:
    """Return a finding of (index, split of the first equal line, its index there) triples."""
    places = []
    for index, other, like in hits[: Occurrences.SHOWN]:
        where = f"line {like + 1}" + ("" if other is split else f" of {other.name}")
        places.append(f"{_place(split, index)} (as {where})")
    return what, text, share, len(hits), places


def _find_trained_on(
    training: Sequence[SplitCheck], own: Digests, trained: Sequence[Digests]
) -> list[tuple[int, SplitCheck, int]]:
    first: dict[int, tuple[SplitCheck, int]] = {}
    for split, digests in zip(training, trained, strict=True):
        for index, like in find_in(own, digests):
            first.setdefault(index, (split, like))
    return [(index, *first[index]) for index in sorted(first)]


def _place(split: SplitCheck, index: int, side: int = 0) -> str:
    if not isinstance(split.source, ParallelFiles):
        return f"{split.name}:{index + 1}"
    path = (split.source.src, split.source.tgt)[side]
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{os.fspath(shown)}:{index + 1}"


# --- filters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterEffect:
    """What a filter would reject of all sources, alone but for blank pairs."""

    name: FilterName
    is_on: bool
    """Whether it is applied to any source."""
    count: int | None
    """Pairs; None: it was not tried, as its package is not installed."""
    share: float | None
    """Of all pairs, from 0 to 1."""
    first: int | None
    """Number of the first such pair among those of all sources, from 1; None: there is none."""
    missing: str | None
    """Message about a package that is not installed."""


def find_filter_effects(data: CorpusData, progress: PairProgress) -> list[FilterEffect]:
    """Read the sources once and return what each filter would reject, on or off.

    Raises:
        CorpusError: a source cannot be read.
        MissingExtraError: a format needs a package that is not installed.
    """
    filters: list[Filter] = []
    missing: dict[FilterName, str] = {}
    for name in FILTER_NAMES:
        try:
            filters.append(build_filters([name], data.src_lang, data.tgt_lang)[-1])
        except MissingExtraError as error:
            missing[name] = str(error)
    tried = FilterPass(filters, alone=True)
    on: set[FilterName] = {"blank"}
    for source in data.sources:
        on.update(data.filters if source.filters is None else source.filters)
        tried.begin_source(FILTER_NAMES)
        reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
        for src, tgt in progress(reader.pairs(), source.path.name):
            tried.add(src, tgt)
    effects = {
        name: FilterEffect(name, name in on, None, None, None, message)
        for name, message in missing.items()
    }
    for filter_, mask in zip(filters, tried.rejected(), strict=True):
        name, places = filter_.name, np.flatnonzero(mask)
        first = int(places[0]) + 1 if len(places) else None
        share = len(places) / len(mask)
        effects[name] = FilterEffect(name, name in on, len(places), share, first, None)
    return [effects[name] for name in FILTER_NAMES]
