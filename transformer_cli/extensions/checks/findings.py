"""The report of ``check``: findings of the text audit, and faulty pairs in each split.

The text is read once to find faults, once by the audit, and again if lines are shown. About 20
bytes per pair are kept in memory: a digest, a length ratio and flags.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from transformer_cli.base.errors import CorpusError, shorten_middle
from transformer_cli.base.messages import show_progress
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import (
    BLOCK_PAIRS,
    BlockStats,
    PairSource,
    ParallelFiles,
    TextStats,
    check_pairs,
    in_batches,
)
from transformer_cli.data.kinds import Preparation, open_kind, open_split, open_training_text
from transformer_cli.extensions.checks.digests import NO_DIGEST, is_among
from transformer_cli.extensions.checks.options import SuspectOptions
from transformer_cli.extensions.checks.rules import (
    STRICT_SHARE,
    WARNING_SHARES,
    FilterPass,
    FilterSettings,
    build_filters,
)
from transformer_cli.extensions.checks.shift import Shift
from transformer_cli.extensions.checks.text_audit import TextAudit
from transformer_cli.extensions.revision.foreign_scripts import are_close

_SHOWN = 3  # places shown for a finding


@dataclass(frozen=True)
class Finding:
    """A fault, and the pairs of a split that have it."""

    split: str
    what: str
    """The name of the rule that found the fault, or 'in_training' or 'shifted'."""
    text: str
    """A description of the fault for messages."""
    count: int
    share: float
    """The fraction of the split's pairs that have the fault."""
    warning: bool
    """Whether this is a warning; otherwise it is only a note."""
    places: list[str]
    """The first few places with the fault: file or split, line number, and details."""

    def __str__(self) -> str:
        has_more = self.count > len(self.places) and self.what != "shifted"  # a range of lines
        places = "; ".join(self.places) + ("; …" if has_more else "")
        return (
            f"{self.split}: {self.text} [{self.what}]: {self.count:,} ({self.share:.2%}): {places}"
        )


@dataclass(frozen=True)
class CorpusReport:
    """Everything that ``check`` reports about a corpus."""

    pairs: dict[str, int]
    """The number of pairs in each split."""
    unavailable: list[str]
    """A message for each test split that could not be opened."""
    mistakes: list[str]
    """Messages about what can only be a mistake, e.g. the same file for two splits."""
    findings: list[Finding]

    @property
    def warnings(self) -> int:
        return sum(finding.warning for finding in self.findings)


def check_corpus(config: Config) -> CorpusReport:
    """Check all splits of a configured corpus, and return the report.

    Sources of kind corpus are first read, filtered and split as in training.

    Raises:
        CorpusError: a split is missing, misaligned, entirely blank, or not UTF-8. But a test split
            that cannot be opened is only reported as unavailable.
        ConfigError: too few pairs are left for ``data.split``.
    """
    data, kind = config.data, open_kind(config.data)
    report = CorpusReport({}, [], [], [])
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        place = Path(directory) / "corpus"
        if kind.keeps_text:
            kind.prepare(Preparation(place, False, lambda: None, lambda _: None))
        training = open_training_text(data, place).parts
        scored = dict(_open_scored(data, place, report.unavailable))
        extras = [SuspectOptions(True)]
        audit = TextAudit(
            data, place, training, extras=extras, is_begun=False, most_pairs=sys.maxsize
        )
        audit.expect(scored)
        trained = [SplitCheck(name, source, config, ()) for name, source in training.items()]
        blocks = [split.read() for split in trained]
        checks = list(trained)
        for name, source in scored.items():
            checks.append(SplitCheck(name, source, config, trained))
            stats = TextStats.of([checks[-1].read()], None)
            audit.conclude_scored(name, source, stats.text_sha256)
        audit.conclude(TextStats.of(blocks, None).text_sha256, is_known=False)
        for split in checks:
            report.pairs[split.name] = split.pairs
            # The files of a prepared corpus are deleted afterwards, so show lines, not places.
            report.findings.extend(split.find(shows_lines=kind.keeps_text))
            if shifts := audit.shifts.get(split.name):
                report.findings.append(_describe_shifts(split, shifts))
    report.mistakes.extend(audit.mistakes)
    return report


def _open_scored(
    data: DataConfig, place: Path, unavailable: list[str]
) -> Iterator[tuple[str, PairSource]]:
    """Yield val and the usable test splits; add messages about the others to ``unavailable``."""
    _, val, *tests = open_kind(data).split_names()
    yield val, open_split(data, val, place)
    for name in tests:
        try:
            source = open_split(data, name, place)
            next(source.pairs())
        except CorpusError as error:
            unavailable.append(f"{name}: not checked: {error}")
        else:
            yield name, source


def _describe_shifts(split: "SplitCheck", shifts: Sequence[Shift]) -> Finding:
    count = sum(shift.end - shift.first for shift in shifts)
    places = [shift.describe(split.pairs) for shift in shifts[:_SHOWN]]
    share = count / split.pairs
    return Finding(split.name, "shifted", "misaligned lines", count, share, True, places)


# --- one split ------------------------------------------------------------------------------------


class SplitCheck:
    """The check of one split. For val and test, ``training`` has the checks of training text."""

    def __init__(
        self, name: str, source: PairSource, config: Config, training: "Sequence[SplitCheck]"
    ) -> None:
        self.name = name
        self.pairs = 0
        self._source = source
        self._training = training
        settings = FilterSettings.of(config.data)
        may_copy = are_close(settings.src_lang, settings.tgt_lang)
        rules = set(WARNING_SHARES) - ({"identical"} if may_copy else set())
        self._rules = FilterPass(build_filters(rules, settings))

    def read(self) -> list[BlockStats]:
        """Read and check the split; return statistics of each of its blocks of pairs.

        Raises:
            CorpusError: the split cannot be read, or every pair has a blank side.
        """
        pairs = show_progress(self._source.pairs(), self.name, " pairs")
        blocks = []
        for block in in_batches(pairs, BLOCK_PAIRS):
            for batch in in_batches(block):
                self._rules.add(batch)
            self.pairs += len(block)
            blocks.append(check_pairs(block))
        if not any(block.full for block in blocks):
            problem = "every pair has a blank side, so none is left"
            raise CorpusError(f"split '{self.name}': {problem}")
        return blocks

    @property
    def digests(self) -> np.ndarray:
        """The digests of all pairs; ``NO_DIGEST`` for blank pairs."""
        names = [rule.name for rule in self._rules.filters]
        return self._rules.columns()[names.index("duplicates")]

    def find(self, shows_lines: bool) -> Iterator[Finding]:
        """Yield the findings, with source lines if ``shows_lines`` is true, else with filenames."""
        faults = list(self._find_faults())
        indices = {index for *_, mask, _ in faults for index in _first(mask)}
        shows_lines = shows_lines or not isinstance(self._source, ParallelFiles)
        shown = self._read_shown(indices) if shows_lines and indices else {}
        for what, text, least, mask, details in faults:
            count = int(mask.sum())
            places = [self._place(index, shown, details.get(index)) for index in _first(mask)]
            share = count / self.pairs
            yield Finding(self.name, what, text, count, share, share >= least, places)

    def _find_faults(self) -> Iterator[tuple[str, str, float, np.ndarray, dict[int, str]]]:
        """Yield each fault's name, summary, share for a warning, mask of pairs, and details."""
        rules, all_details = self._rules.filters, self._rules.details
        masks = self._rules.rejected(self._training[0]._rules if self._training else None)
        for rule, mask, details in zip(rules, masks, all_details, strict=True):
            if mask.any():
                text = f"pairs where {rule.summary}"
                yield rule.name, text, WARNING_SHARES[rule.name], mask, details
        # Training text is much larger, so sort the digests of this split.
        mask = np.zeros(self.pairs, bool)
        few = np.unique(self.digests[self.digests != NO_DIGEST])
        for part in self._training:
            mask |= is_among(self.digests, np.unique(part.digests[is_among(part.digests, few)]))
        if mask.any():
            yield "in_training", "pairs that are also in the training text", STRICT_SHARE, mask, {}

    def _read_shown(self, indices: set[int]) -> dict[int, str]:
        """Return the source lines of the pairs at these indices, keyed by index."""
        # This needs a second pass: repeated pairs are only known after the first.
        first = islice(self._source.pairs(), max(indices) + 1)
        pairs = show_progress(first, f"{self.name}, to show lines", " pairs")
        return {index: src for index, (src, _) in enumerate(pairs) if index in indices}

    def _place(self, index: int, shown: dict[int, str], detail: str | None) -> str:
        end = f" ({detail})" if detail else ""
        if shown:
            return f"{self.name}:{index + 1} '{shorten_middle(shown[index].strip(), 40)}'{end}"
        assert isinstance(self._source, ParallelFiles)
        path, here = self._source.src, Path.cwd()
        return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{index + 1}{end}"


def _first(mask: np.ndarray) -> list[int]:
    indices: list[int] = np.flatnonzero(mask)[:_SHOWN].tolist()
    return indices
