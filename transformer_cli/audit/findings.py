"""What ``check`` reports of a corpus: findings in each split, and what each filter would reject.

The rules that say what is wrong with a pair are those of ``data/filters/rules.py``.
"""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from transformer_cli.audit.nearness import Nearness, find_nearness
from transformer_cli.audit.split_check import Occurrences, SplitCheck, Unit
from transformer_cli.audit.text_audit import ALL_COPIED, TRAINED_TEXT, find_mistaken_files
from transformer_cli.config.data_schema import CopyData, CorpusData, DataConfig, FilterName
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import (
    ConcatenatedSources,
    PairProgress,
    PairSource,
    ParallelFiles,
    in_batches,
)
from transformer_cli.data.filters.filter_pass import Filter, FilterPass
from transformer_cli.data.filters.rules import (
    FILTER_NAMES,
    STRICT_SHARE,
    TOLERANT_SHARE,
    WARNING_SHARES,
    build_filters,
)
from transformer_cli.data.preparing import prepare_corpus
from transformer_cli.data.readers.opening import open_source
from transformer_cli.data.sources import open_added, open_split, split_names
from transformer_cli.data.token_arrays import PERCENTILES, percentiles
from transformer_cli.errors import CorpusError, MissingExtraError, shorten_middle
from transformer_cli.text.protocol import Tokenizers
from transformer_cli.text.scripts import has_spaces, scripts_of

_OF_SIDES = ("odd_characters", "unknown_characters")
# Names of all findings, as --ignore takes them; the first are rules' names.
FINDINGS = (
    *WARNING_SHARES,
    *("shifted", "in_training", "source_in_training", "near_training", "long"),
    *(f"{side}_{what}" for side in ("source", "target") for what in _OF_SIDES),
)


@dataclass(frozen=True)
class Finding:
    """Some pairs of a split that have the same fault."""

    split: str
    what: str  # one of FINDINGS
    text: str  # its description in messages
    count: int
    share: float  # of the split's pairs, from 0 to 1
    warning: bool  # whether it is a warning, or a note only
    places: list[str]  # the first few: file, line and what is there

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

    unit: Unit  # unit of the lengths
    unknown_scripts: list[str]  # languages whose script is unknown, so that none is wrong
    unavailable: list[str]  # a message for each test split that could not be opened
    splits: list[SplitSummary]
    near: list[Nearness]  # of the splits that are not trained on
    mistakes: list[str]  # what can only be a mistake: a file named twice, say
    findings: list[Finding]
    ignored: list[str]  # names of findings that never count as warnings (--ignore)

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

    Sources of kind corpus are first read, filtered and split as for a training. ``tokenizers`` are
    the run's, None before they are learned; ``ignored`` names findings that are never warnings.

    Raises:
        CorpusError: a split is missing, misaligned, blank, or not UTF-8. A test split that cannot
            be opened is reported as unavailable instead.
    """
    data = config.data
    unit: Unit = "characters"
    if tokenizers is not None:
        unit = "tokens"
    elif has_spaces(data.src_lang) and has_spaces(data.tgt_lang):
        unit = "words"
    languages = [] if isinstance(data, CopyData) else [data.src_lang, data.tgt_lang]
    unknown = [language for language in languages if scripts_of(language) is None]
    report = CorpusReport(unit, unknown, [], [], [], [], [], sorted(set(ignored)))
    training: list[SplitCheck] = []
    scored: list[SplitCheck] = []
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        prepared = Path(directory) / "corpus"
        if isinstance(data, CorpusData):
            prepare_corpus(data, prepared, progress)
        sources = list(_sources(config, report.unavailable, prepared))
        for name, source, is_trained in sources:
            if isinstance(data, CorpusData):
                # Findings name a line of the split, and show it, as the files are gone afterwards.
                source = ConcatenatedSources((source,))
            split = SplitCheck(
                name, source, config, tokenizers, unit, None if is_trained else training
            )
            split.read(progress)
            report.findings.extend(_find(split, config, unit, ignored))
            lengths = [percentiles(side.length_counts(), PERCENTILES) for side in split.sides]
            report.splits.append(SplitSummary(name, split.pairs, *lengths))
            (training if is_trained else scored).append(split)
        report.near.extend(find_nearness(data, sources, progress))
    large = (near for near in report.near if near.is_large)
    report.findings.extend(_warn_of_near(data, near, ignored) for near in large)
    report.mistakes.extend(_find_mistakes(config, training, scored))
    return report


def _sources(
    config: Config, unavailable: list[str], prepared: Path
) -> Iterator[tuple[str, PairSource, bool]]:
    """Yield (name, text, whether it is trained on) of each split and each source added to train.

    A message is appended to ``unavailable`` for each test split that cannot be opened.
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


def _warn_of_near(data: DataConfig, near: Nearness, ignored: Collection[str]) -> Finding:
    what = "near_training"
    text = f"pairs, of {near.compared:,} compared, that {near.warn(data)}"
    share = near.near / near.compared
    return Finding(near.name, what, text, near.near, share, what not in ignored, near.examples)


def _find_mistakes(
    config: Config, training: Sequence[SplitCheck], scored: Sequence[SplitCheck]
) -> Iterator[str]:
    """Yield a message for each thing that ``train`` refuses as it can only be a mistake."""
    if isinstance(config.data, CopyData):  # made as it has to be
        return
    train, test = ({split.name: split.source for split in part} for part in (training, scored))
    yield from find_mistaken_files(config.data, train, test)
    for split in (*training, *scored):
        if split.is_all_copied:
            yield ALL_COPIED.format(split.name)
    digests = np.concatenate([split.known_digests() for split in training])
    for split in scored:
        if np.array_equal(split.known_digests(), digests):
            yield TRAINED_TEXT.format(split.name)


def _find(
    split: SplitCheck, config: Config, unit: Unit, ignored: Collection[str]
) -> Iterator[Finding]:
    """Yield what is found in a split."""
    found = [each for each in _look_for(split, config, unit) if each[3].count]
    shown = _read_shown(split, {index for _, _, _, faults, _ in found for index, _ in faults.first})
    for what, text, warning_share, faults, side in found:
        share = faults.count / split.pairs
        is_warning = share >= warning_share and what not in ignored
        places = [
            _place(split, index, side, shown) + (f" ({detail})" if detail else "")
            for index, detail in faults.first
        ]
        yield Finding(split.name, what, text, faults.count, share, is_warning, places)


def _look_for(
    split: SplitCheck, config: Config, unit: Unit
) -> Iterator[tuple[str, str, float, Occurrences, int]]:
    """Yield name, description, share from which it is a warning, faults, and their side."""
    for name, summary, faults in split.find_by_rules():
        yield name, f"pairs where {summary}", WARNING_SHARES[name], faults, 0
    shifted = split.find_shifted()
    yield "shifted", "lines shifted against each other", 0.0, shifted, 0
    if split.training is not None:
        pairs = split.find_trained_on(lambda part: part.pair_digests)
        yield "in_training", "pairs that are trained on too", STRICT_SHARE, pairs, 0
        sources = split.find_trained_on(lambda part: part.src_digests)
        yield "source_in_training", "sources that are trained on", TOLERANT_SHARE, sources, 0
    over = f"pairs of more than {split.max_length:,} {'tokens' if unit == 'tokens' else 'words'}"
    if split.training is None:
        text, share = f"{over} (training.max_length), not used in training", TOLERANT_SHARE
    elif config.model.positions == "learned" and split.name == "val":
        text, share = f"{over} (model.max_positions): training will refuse them", 0.0
    else:
        text, share = f"{over}, translated in pieces and not in the perplexity", STRICT_SHARE
    yield "long", text, share, split.long, 0
    whose = "the vocabulary" if unit == "tokens" else "the training text"
    for number, (which, side) in enumerate(zip(("source", "target"), split.sides, strict=True)):
        text = f"{which} lines with odd characters"
        yield f"{which}_odd_characters", text, STRICT_SHARE, side.odd, number
        text = f"{which} lines with characters that {whose} lacks"
        yield f"{which}_unknown_characters", text, TOLERANT_SHARE, side.lacking, number


def _read_shown(split: SplitCheck, indices: set[int]) -> dict[int, tuple[str, str]]:
    """Return the pairs of these indices, unless they are lines of files that a user can open."""
    if isinstance(split.source, ParallelFiles) or not indices:
        return {}
    pairs = enumerate(islice(split.source.pairs(), max(indices) + 1))
    return {index: pair for index, pair in pairs if index in indices}


def _place(split: SplitCheck, index: int, side: int, shown: dict[int, tuple[str, str]]) -> str:
    if not isinstance(split.source, ParallelFiles):
        return f"{split.name}:{index + 1} '{shorten_middle(shown[index][side].strip(), 40)}'"
    path = (split.source.src, split.source.tgt)[side]
    here = Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{index + 1}"


# --- filters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterEffect:
    """What a filter would reject of all sources, alone but for blank pairs."""

    name: FilterName
    is_on: bool  # whether it is applied to any source
    count: int | None = None  # pairs; None: it was not tried, as its package is not installed
    share: float | None = None  # of all pairs, from 0 to 1
    first: int | None = None  # number of the first such pair of all, from 1
    missing: str | None = None  # message about a package that is not installed


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
    tried = FilterPass(filters)
    on: set[FilterName] = {"blank"}
    for source in data.sources:
        on.update(data.filters if source.filters is None else source.filters)
        reader = open_source(source, data.src_lang, data.tgt_lang, data.max_bad_units)
        for batch in in_batches(progress(reader.pairs(), source.name)):
            tried.add(batch)
    effects = [FilterEffect(name, name in on, missing=why) for name, why in missing.items()]
    for filter_, mask in zip(filters, tried.rejected(), strict=True):
        places = (np.flatnonzero(mask) + 1).tolist()
        first = places[0] if places else None
        is_on, share = filter_.name in on, len(places) / len(mask)
        effects.append(FilterEffect(filter_.name, is_on, len(places), share, first))
    return sorted(effects, key=lambda effect: FILTER_NAMES.index(effect.name))
