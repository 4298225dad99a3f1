"""What ``check`` reports about a corpus: what the audit finds, and faults of each split's pairs.

A split is checked in one pass, and read again for its shifts and where lines of it are shown.
Besides the text's different characters, 30 bytes a pair are held: two digests, a ratio and flags.
"""

import re
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from transformer_cli.base.errors import CorpusError, shorten_middle
from transformer_cli.base.messages import show_progress
from transformer_cli.config.choices import LONGEST_SOURCE
from transformer_cli.config.data_schema import DataConfig
from transformer_cli.config.languages import has_spaces
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import (
    BLOCK_PAIRS,
    BlockStats,
    PairSource,
    ParallelFiles,
    TextStats,
    check_pairs,
    in_batches,
    keep_full,
)
from transformer_cli.data.kinds import (
    Preparation,
    open_kind,
    open_split,
    open_training_parts,
)
from transformer_cli.data.store import PERCENTILES, percentiles
from transformer_cli.extensions.checks.checked_kind import find_checked
from transformer_cli.extensions.checks.digests import NO_DIGEST, digest, is_among
from transformer_cli.extensions.checks.near_copies import Nearness, Samples
from transformer_cli.extensions.checks.rules import (
    STRICT_SHARE,
    TOLERANT_SHARE,
    WARNING_SHARES,
    FilterPass,
    RepeatFilter,
    build_filters,
)
from transformer_cli.extensions.checks.shift import Shift
from transformer_cli.extensions.checks.text_audit import TextAudit
from transformer_cli.extensions.revision.foreign_scripts import are_close, scripts_of
from transformer_cli.text.protocol import Tokenizer, Tokenizers
from transformer_cli.text.vocabulary import SPECIALS, UNK_ID

_LOOKED_FOR = 20_000
"""First pairs of a split from which a sample is compared with the training text."""
_OF_SIDES = ("odd_characters", "unknown_characters")
# Names of all findings, as --ignore takes them; the first are rules' names.
FINDINGS = (
    *WARNING_SHARES,
    *("shifted", "in_training", "source_in_training", "near_training", "long"),
    *(f"{side}_{what}" for side in ("source", "target") for what in _OF_SIDES),
)
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_ENTITY = re.compile(r"&(?:[a-z]{2,8}|#\d{2,7}|#x[0-9a-f]{2,6});", re.IGNORECASE)
# UTF-8 read as Latin-1 or Windows-1252, and written as UTF-8 again.
_TWICE_ENCODED = re.compile(
    "Ã[\u0080-\u00ba\u00bc-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u201e\u2030]|â€"
)
_ODD_CATEGORIES = frozenset(("Cc", "Co", "Cn"))  # control, private-use, unassigned
# U+FFFD and invisible ones; not joiners, with which some scripts are spelled, nor direction marks.
_ODD = frozenset("\ufffd\u00ad\u200b\u2060\ufeff\u2028\u2029\u202a\u202b\u202c\u202d\u202e")

Unit = Literal["tokens", "words", "characters"]
"""Of lengths; without tokenizers, words between spaces, where both languages have spaces."""


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
        return sum(finding.warning for finding in self.findings)


def check_corpus(
    config: Config,
    tokenizers: Tokenizers | None,
    ignored: Collection[str] = (),
) -> CorpusReport:
    """Check all splits of a configured corpus, and return the report.

    Sources of kind corpus are first read, filtered and split as for a training. ``tokenizers`` are
    the run's, None before they are learned; ``ignored`` names findings that are never warnings.

    Raises:
        CorpusError: a split is missing, misaligned, blank, or not UTF-8. A test split that cannot
            be opened is reported as unavailable instead.
        ConfigError: too few pairs are left for ``data.split``.
    """
    data = config.data
    unit: Unit = "characters"
    if tokenizers is not None:
        unit = "tokens"
    elif has_spaces(data.src_lang) and has_spaces(data.tgt_lang):
        unit = "words"
    unknown = [
        language for language in (data.src_lang, data.tgt_lang) if scripts_of(language) is None
    ]
    report = CorpusReport(unit, unknown, [], [], [], [], [], sorted(set(ignored)))
    kind = open_kind(data)
    with tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory:
        place = Path(directory) / "corpus"
        if kind.keeps_text:
            kind.prepare(Preparation(place, False, lambda: None, lambda _: None))
        training = open_training_parts(data, place)
        scored = dict(_open_scored(data, place, report.unavailable))
        audit = TextAudit(data, place, training, allow=True, is_begun=False, most_pairs=sys.maxsize)
        audit.expect(scored)
        checked = find_checked(data)
        samples = None if checked.has_few_words else _draw_samples(scored, config)
        checks: list[SplitCheck] = []
        blocks: list[list[BlockStats]] = []
        for name, source in training.items():
            split = SplitCheck(name, source, config, tokenizers, unit)
            blocks.append(split.read(samples))
            checks.append(split)
        text_sha256 = TextStats.of(blocks, None).text_sha256
        for name, source in scored.items():
            split = SplitCheck(name, source, config, tokenizers, unit, checks[: len(training)])
            own = TextStats.of([split.read()], None)
            audit.conclude_scored(name, own.text_sha256)
            checks.append(split)
        audit.conclude(text_sha256, is_known=False)
        for split in checks:
            faults = _look_for(split, config, unit, audit.find_shifts(split.name))
            # The files of a prepared corpus are gone afterwards, so its lines are shown.
            report.findings.extend(_find(split, faults, ignored, kind.keeps_text))
            lengths = [percentiles(side.length_counts(), PERCENTILES) for side in split.sides]
            report.splits.append(SplitSummary(split.name, split.pairs, *lengths))
    report.near.extend(samples.conclude() if samples else ())
    report.mistakes.extend(audit.mistakes)
    for near in report.near:
        if near.is_large:
            what, share = "near_training", near.near / near.compared
            text = (
                f"of {near.compared:,} pairs compared, these have near-copies in the training "
                f"text, which flatter scores{checked.advise_near(near.name)}"
            )
            is_warning = what not in ignored
            found = Finding(near.name, what, text, near.near, share, is_warning, near.examples)
            report.findings.append(found)
    return report


def _draw_samples(scored: Mapping[str, PairSource], config: Config) -> Samples:
    texts = {
        name: list(islice(keep_full(source.pairs()), _LOOKED_FOR))
        for name, source in scored.items()
        if isinstance(source, ParallelFiles)
    }
    return Samples(texts, (config.data.src_lang, config.data.tgt_lang))


def _open_scored(
    data: DataConfig, place: Path, unavailable: list[str]
) -> Iterator[tuple[str, PairSource]]:
    """Yield each split that is not trained on; note in ``unavailable`` what cannot be opened."""
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


# --- one split ------------------------------------------------------------------------------------


@dataclass
class Occurrences:
    """Number of lines or pairs with a fault, and the first few."""

    SHOWN: ClassVar[int] = 3
    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    """Index of each, from 0, and a detail; at most three."""

    def add(self, index: int, detail: str = "") -> None:
        """Count one more, later than all before."""
        self.count += 1
        if len(self.first) < self.SHOWN:
            self.first.append((index, detail))


class SplitCheck:
    """Checks a split.

    ``tokenizers`` are None before they are known: lengths are in words or characters then.
    ``training`` is what is trained on, checked before; None for that itself.
    """

    def __init__(
        self,
        name: str,
        source: PairSource,
        config: Config,
        tokenizers: Tokenizers | None,
        unit: Unit,
        training: "Sequence[SplitCheck] | None" = None,
    ) -> None:
        self.name = name
        self.source = source
        self.training = training
        self.pairs = 0
        self._src_digests = bytearray()
        self.long = Occurrences()
        # How many tokens so many characters are, only a tokenizer tells.
        self.max_length = sys.maxsize if unit == "characters" else self._longest(config)
        languages = (config.data.src_lang, config.data.tgt_lang)
        rules = set(WARNING_SHARES) - ({"identical"} if are_close(*languages) else set())
        typical: FilterPass | None = training[0].rules if training else None
        self.rules: FilterPass = FilterPass(build_filters(rules, *languages), typical=typical)
        self._blank = 0
        cut: Callable[[str], Sized] = list if unit == "characters" else str.split
        both = (None, None) if tokenizers is None else (tokenizers.src, tokenizers.tgt)
        self.sides = tuple(
            SideCheck(self._lacks(number, tokenizer), tokenizer.encode if tokenizer else cut)
            for number, tokenizer in enumerate(both)
        )

    def _longest(self, config: Config) -> int:
        """Return the length of a side up to which a pair is neither left out nor split."""
        if self.training is None:
            return config.training.max_length
        if config.model.positions == "learned":
            return min(LONGEST_SOURCE, config.model.max_positions - 1)
        return LONGEST_SOURCE

    def _lacks(self, side: int, tokenizer: Tokenizer | None) -> Callable[[str], bool]:
        """Return a function that tells characters that the vocabulary lacks, or the training."""
        if tokenizer is not None:
            return _unknown_to(tokenizer)
        if self.training is None:
            return lambda character: False
        seen = [split.sides[side].characters for split in self.training]
        return lambda character: not any(character in characters for characters in seen)

    def read(self, samples: Samples | None = None) -> list[BlockStats]:
        """Read and check the split, and compare it with ``samples``; return its blocks' statistics.

        Raises:
            CorpusError: it cannot be read, or every pair has a blank side.
        """
        pairs = iter(show_progress(self.source.pairs(), self.name, " pairs"))
        blocks = []
        while block := list(islice(pairs, BLOCK_PAIRS)):
            for batch in in_batches(block):
                self._check_batch(batch)
                if samples is not None:
                    samples.compare(batch)
            blocks.append(check_pairs(block))
        if self._blank == self.pairs:
            problem = "every pair has a blank side; nothing is left of it"
            raise CorpusError(f"split '{self.name}': {problem}")
        return blocks

    def _check_batch(self, batch: Sequence[tuple[str, str]]) -> None:
        blank = self.rules.add(batch)
        both = zip(batch, blank, strict=True)
        sources = (None if is_blank else src for (src, _), is_blank in both)
        self._src_digests += digest(sources).tobytes()
        for (src, tgt), is_blank in zip(batch, blank, strict=True):
            if is_blank:
                self._blank += 1
            else:
                sides = zip(self.sides, (src, tgt), strict=True)
                tokens = max(side.check_line(self.pairs, line) for side, line in sides)
                if tokens > self.max_length:
                    self.long.add(self.pairs, f"{tokens:,}")
            self.pairs += 1

    @property
    def pair_digests(self) -> np.ndarray:
        """Digests of all pairs, of which blank ones have none."""
        names = [rule.name for rule in self.rules.filters]
        return self.rules.columns()[names.index("duplicates")]

    @property
    def src_digests(self) -> np.ndarray:
        """Digests of all sources; pairs with a blank side have none."""
        return np.frombuffer(self._src_digests, np.uint64)

    def find_by_rules(self) -> Iterator[tuple[str, str, Occurrences]]:
        """Yield name, summary and faults of each rule that filters go by as well."""
        for place, mask in enumerate(self.rules.rejected()):
            rule, details = self.rules.filters[place], self.rules.details[place]
            indices = np.flatnonzero(mask)
            shown = indices[: Occurrences.SHOWN].tolist()
            if isinstance(rule, RepeatFilter):
                digests = self.pair_digests
                like = {index: int(np.argmax(digests == digests[index])) for index in shown}
                details = {index: f"as line {like[index] + 1}" for index in shown}
            first = [(index, details.get(index, "")) for index in shown]
            yield rule.name, rule.summary, Occurrences(len(indices), first)

    def find_trained_on(self, digests: "Callable[[SplitCheck], np.ndarray]") -> Occurrences:
        """Return the lines that are in the training text as well, compared by these digests."""
        first: dict[int, tuple[SplitCheck, int]] = {}
        for part in self.training or ():
            for index, like in find_in(digests(self), digests(part)).items():
                first.setdefault(index, (part, like))
        shown = sorted(first.items(), key=lambda item: item[0])[: Occurrences.SHOWN]
        places = [(index, f"as line {like + 1} of {part.name}") for index, (part, like) in shown]
        return Occurrences(len(first), places)


class SideCheck:
    """Checks the lines of one side of a split, and counts their tokens.

    ``lacks`` tells whether the vocabulary lacks a character; ``encode`` cuts a line into tokens.
    """

    def __init__(self, lacks: Callable[[str], bool], encode: Callable[[str], Sized]) -> None:
        self.characters: set[str] = set()  # all that were seen
        self.odd = Occurrences()  # lines with characters that belong in no text
        self.lacking = Occurrences()  # lines with characters that the vocabulary lacks
        self._lengths: Counter[int] = Counter()
        self._lacks = lacks
        self._encode = encode
        self._lacking_characters: set[str] = set()
        self._odd_characters: set[str] = set()

    def check_line(self, index: int, line: str) -> int:
        """Check a line that is not blank; return its number of tokens."""
        # By its different characters, since nearly all lines have none that matters.
        characters = set(line)
        if not characters <= self.characters:
            self._meet(characters - self.characters)
        if odd := self._find_odd(line, characters):
            self.odd.add(index, odd)
        if lacking := characters & self._lacking_characters:
            self.lacking.add(index, _format(lacking))
        tokens = len(self._encode(line))
        self._lengths[tokens] += 1
        return tokens

    def length_counts(self) -> np.ndarray:
        """Return the number of lines of 0, 1, 2, … tokens."""
        counts = np.zeros(max(self._lengths) + 1, dtype=np.int64)
        counts[list(self._lengths)] = list(self._lengths.values())
        return counts

    def _meet(self, new: set[str]) -> None:
        self.characters |= new
        for character in new:
            if unicodedata.category(character) in _ODD_CATEGORIES or character in _ODD:
                self._odd_characters.add(character)
            elif not character.isspace() and self._lacks(character):
                self._lacking_characters.add(character)

    def _find_odd(self, line: str, characters: set[str]) -> str:
        if odd := characters & self._odd_characters:
            return _format(odd)
        if "&" in characters and (entity := _ENTITY.search(line)):
            return entity[0]
        if ("Ã" in characters or "€" in characters) and (twice := _TWICE_ENCODED.search(line)):
            return twice[0] if twice[0].isprintable() else "Ã"
        return ""


def _format(characters: set[str]) -> str:
    """Return a few of the characters in readable form, by code point."""
    shown = sorted(characters)[:5]
    return " ".join(
        sign if sign.isprintable() and not sign.isspace() else f"U+{ord(sign):04X}"
        for sign in shown
    ) + (" …" if len(characters) > len(shown) else "")


def _unknown_to(tokenizer: Tokenizer) -> Callable[[str], bool]:
    """Return a function that tells whether a character is in no token of a vocabulary."""
    tokens = map(tokenizer.token, range(len(SPECIALS), tokenizer.text_size))
    known: set[str] = set().union(*(token for token in tokens if not _BYTE.fullmatch(token)))
    is_lowercase = not any(map(str.isupper, known))

    def lacks(character: str) -> bool:
        if known.issuperset(character.lower() if is_lowercase else character):
            return False
        # A tokenizer may also read it as another one, as SentencePiece reads 'ﬁ' as 'fi'.
        ids = tokenizer.encode(character)
        return any(number == UNK_ID or _BYTE.fullmatch(tokenizer.token(number)) for number in ids)

    return lacks


def find_in(few: np.ndarray, many: np.ndarray) -> dict[int, int]:
    """Return by the index of each line of one text, rising, the first like it in another one."""
    # The other way round, the big text would have to be sorted.
    hits = np.flatnonzero(is_among(many, np.unique(few[few != NO_DIGEST])))
    first: dict[int, int] = {}
    for index, number in zip(hits.tolist(), many[hits].tolist(), strict=True):
        first.setdefault(number, index)
    return {index: first[number] for index, number in enumerate(few.tolist()) if number in first}


# --- what is found there --------------------------------------------------------------------------


def _find(
    split: SplitCheck,
    faults: "Iterable[Fault]",
    ignored: Collection[str],
    shows_lines: bool,
) -> Iterator[Finding]:
    """Yield what is found in a split, with lines of files, or the lines themselves."""
    found = [fault for fault in faults if fault.where.count]
    shows_lines = shows_lines or not isinstance(split.source, ParallelFiles)
    indices = {index for fault in found for index, _ in fault.where.first}
    shown = _read_shown(split, indices) if shows_lines and indices else {}
    for fault in found:
        share = fault.where.count / split.pairs
        is_warning = share >= fault.warning_share and fault.what not in ignored
        places = [
            _place(split, index, fault.side, shown) + (f" ({detail})" if detail else "")
            for index, detail in fault.where.first
        ]
        count = fault.where.count
        yield Finding(split.name, fault.what, fault.text, count, share, is_warning, places)


class Fault(NamedTuple):
    """A fault that was looked for in a split."""

    what: str
    text: str
    warning_share: float
    """Share of the pairs from which it is a warning."""
    where: Occurrences
    side: int = 0


def _look_for(
    split: SplitCheck, config: Config, unit: Unit, shifts: Sequence[Shift]
) -> Iterator[Fault]:
    """Yield all that is looked for in a split."""
    for name, summary, faults in split.find_by_rules():
        yield Fault(name, f"pairs where {summary}", WARNING_SHARES[name], faults)
    shifted = Occurrences(
        sum(shift.end - shift.first for shift in shifts),
        [(shift.first, shift.describe(split.pairs)) for shift in shifts[: Occurrences.SHOWN]],
    )
    yield Fault("shifted", "lines shifted against each other", 0.0, shifted)
    if split.training is not None:
        pairs = split.find_trained_on(lambda part: part.pair_digests)
        yield Fault("in_training", "pairs that are trained on too", STRICT_SHARE, pairs)
        sources = split.find_trained_on(lambda part: part.src_digests)
        yield Fault("source_in_training", "sources that are trained on", TOLERANT_SHARE, sources)
    over = f"pairs of more than {split.max_length:,} {'tokens' if unit == 'tokens' else 'words'}"
    if split.training is None:
        text, share = f"{over} (training.max_length), not used in training", TOLERANT_SHARE
    elif config.model.positions == "learned" and split.name == "val":
        text, share = f"{over} (model.max_positions): training will refuse them", 0.0
    else:
        text, share = f"{over}, translated in pieces and not in the perplexity", STRICT_SHARE
    yield Fault("long", text, share, split.long)
    whose = "the vocabulary" if unit == "tokens" else "the training text"
    for number, (which, side) in enumerate(zip(("source", "target"), split.sides, strict=True)):
        text = f"{which} lines with odd characters"
        yield Fault(f"{which}_odd_characters", text, STRICT_SHARE, side.odd, number)
        text = f"{which} lines with characters that {whose} lacks"
        what = f"{which}_unknown_characters"
        yield Fault(what, text, TOLERANT_SHARE, side.lacking, number)


def _read_shown(split: SplitCheck, indices: set[int]) -> dict[int, tuple[str, str]]:
    """Return the pairs at these indices."""
    # A second pass, to the last of them: what several lines have in common is known after one.
    first = islice(split.source.pairs(), max(indices) + 1)
    pairs = show_progress(first, f"{split.name}, to show", " pairs")
    return {index: pair for index, pair in enumerate(pairs) if index in indices}


def _place(split: SplitCheck, index: int, side: int, shown: dict[int, tuple[str, str]]) -> str:
    if shown:
        return f"{split.name}:{index + 1} '{shorten_middle(shown[index][side].strip(), 40)}'"
    assert isinstance(split.source, ParallelFiles)
    path, here = split.source.paths[side], Path.cwd()
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{index + 1}"
