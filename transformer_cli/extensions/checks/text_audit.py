"""Checks of an experiment's text before training.

The splits to validate and to evaluate on are read. The training text is looked at where it is
checked anyway, so that a run that goes on starts as soon as before. ``check`` looks more closely.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from transformer_cli.base.errors import CorpusError, SuspectTextError
from transformer_cli.base.files import is_same_file
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import (
    PairRange,
    PairSource,
    ParallelFiles,
    ParallelText,
    in_batches,
)
from transformer_cli.data.sources import (
    default_split,
    is_on_disk,
    open_kind,
    open_split,
    split_names,
)
from transformer_cli.data.training_text import (
    BlockStats,
    Shard,
    StreamedText,
    keep_full,
    pick_executor,
)
from transformer_cli.extensions.checks.near_copies import LOOKED_FOR, Samples
from transformer_cli.extensions.checks.shift import ShiftCheck
from transformer_cli.extensions.corpora.prepared import given_sources
from transformer_cli.extensions.corpora.settings import CorpusData, SourceConfig
from transformer_cli.extensions.corpora.units import UnitReader
from transformer_cli.extensions.revision.foreign_scripts import ScriptCheck
from transformer_cli.text.scripts import scripts_of

Sources = Mapping[str, PairSource]
ALL_COPIED = "{}: each target is its source, so one file is both"
TRAINED_TEXT = "{}: its text is the training text"
MOSTLY_SHIFTED = "{}: most of its lines are shifted against each other"
MOSTLY = 0.5
"""Share of a text from which what is wrong with it is wrong with the text as a whole."""

LARGE_OVERLAP = 0.01  # share of a split that is trained on, from which it is worth a line
_LOOKED_AT = 1000  # pairs of a split whose script is looked at
# First pairs of a text that are compared with their neighbours, at 20 µs each; `check` does all.
_SHIFT_PAIRS = 1_000_000


class TextAudit:
    """Checks an experiment's text while it is prepared; a ``texts.ExperimentCheck``.

    What can only be a mistake is refused by a SuspectTextError, or noted: if ``allow`` says so, or
    training ``is_begun``; then a test split may be missing, too. ``place`` is where the run keeps
    or found its text.
    """

    def __init__(
        self,
        data: DataSection,
        place: Path | None,
        training: Sources,
        *,
        allow: bool,
        is_begun: bool,
    ) -> None:
        self.notes: list[str] = []
        self.details: list[str] = []
        self._data = data
        self._kind = open_kind(data)
        self._allow = allow or is_begun
        self._is_begun = is_begun
        self._one_language = data.src_lang == data.tgt_lang
        self._place = place
        self._training = training
        self._trained = [_Audited(name, source) for name, source in self._training.items()]
        self._scored: list[_Audited] = []
        self._now = self._trained[0]
        self._text_sha256s: dict[str, str] = {}
        self._wanted = _Scored()
        self._found: set[int] = set()
        self._nearest = np.zeros(1, np.float32)

    def check_scored(self) -> None:
        """Check all files' names, and read the splits to validate and evaluate on.

        A CorpusError is raised if one is missing, misaligned, damaged or blank.
        """
        if self._kind.is_made:
            return
        scored = dict(self._open_scored())
        for mistake in find_mistaken_files(self._data, self._training, scored):
            self._refuse(mistake)
        for name, source in scored.items():
            audited = _Audited(name, source)
            self._scored.append(audited)
            try:
                text = StreamedText.of(source, checks=[self])
            except CorpusError as error:
                self._scored.remove(audited)
                self._miss(name, error)
            else:
                self._text_sha256s[name] = text.stats.text_sha256
                self._conclude_pairs(audited)
        files = (
            (name, replace(source, src=source.src.absolute(), tgt=source.tgt.absolute()))
            for name, source in ((each.name, each.source) for each in self._scored)
            if isinstance(source, ParallelFiles)
        )
        languages = (self._data.src_lang, self._data.tgt_lang)
        self._wanted = _Scored(tuple(files), languages, uuid4().hex)
        self._nearest = np.zeros(1, np.float32)

    def _open_scored(self) -> Iterator[tuple[str, ParallelFiles | ParallelText]]:
        _, *names = split_names(self._data)
        for name in names:
            if name == "val" or is_on_disk(self._data, name, self._place):
                source = open_split(self._data, name, self._place)
                try:
                    next(source.pairs())
                except CorpusError as error:
                    self._miss(name, error)
                else:
                    yield name, source
            elif name == default_split(self._data) and not self._is_begun:
                self.notes.append(f"{name}: is not on disk; evaluate will download it")

    def _miss(self, name: str, error: CorpusError) -> None:
        if name == "val" or not self._is_begun:
            raise type(error)(f"split '{name}': {error}") from error
        self.notes.append(f"{name}: cannot be evaluated on: {error}")

    def begin(self, source: PairSource, shards: Sequence[Shard], executor: Executor) -> "_Look":
        """Begin with one of the texts; see ``TextCheck``."""
        texts = (*self._trained, *self._scored)
        self._now = next(each for each in texts if each.source is source)
        first = _first_shards(shards)
        self._now.shifts = pick_executor(executor, first).submit(_find_shifts, first)
        return _Look(self._wanted)

    def merge(self, look: "_Look", blocks: Sequence[BlockStats]) -> None:
        """Take what was seen in a shard; see ``TextCheck``."""
        self._now.full += sum(block.full for block in blocks)
        self._now.copies += sum(block.copied for block in blocks)
        self._found |= look.found
        self._nearest = np.maximum(self._nearest, look.nearest)

    def conclude(self, text_sha256: str, is_known: bool) -> None:
        """Note what was found in the training text, unless it was noted before."""
        self._refuse_trained_text(text_sha256)
        if not is_known:
            self._conclude()

    def _refuse_trained_text(self, text_sha256: str) -> None:
        for name, other in self._text_sha256s.items():
            if other == text_sha256:
                self._refuse(TRAINED_TEXT.format(name))

    def _conclude(self) -> None:
        for part in self._trained:
            self._conclude_pairs(part)
            if isinstance(part.source, UnitReader) and (bad := part.source.bad).count:
                found = f"{bad.count:,} of {bad.units:,} units cannot be read ({bad.why})"
                self.notes.append(f"{part.name}: {found}")
        wanted = _look_for(self._wanted)
        for name, pairs in wanted.splits.items():
            trained = len(pairs & self._found)
            if trained and trained >= LARGE_OVERLAP * len(pairs):
                shared = f"{trained:,} of {len(pairs):,} pairs are trained on too"
                self.notes.append(f"{name}: {shared}")
        if self._kind.has_few_words:  # so that all is near
            return
        for near in wanted.samples.conclude(self._nearest):
            if near.is_large:
                share = f"{near.near / near.compared:.0%} of its pairs"
                self.notes.append(f"{near.name}: {share} {near.warn(self._data)}")
            self.details.append(f"{near.name}: {near.describe()}")

    def _conclude_pairs(self, audited: "_Audited") -> None:
        if audited.full and audited.copies == audited.full and not self._one_language:
            self._refuse(ALL_COPIED.format(audited.name))
        if audited.shifts is None:  # nothing was read, as the text is known
            return
        shifts, main = audited.shifts.result()
        if main is not None:
            self._refuse(f"{MOSTLY_SHIFTED.format(audited.name)}, {main}", "mend the files")
        self.notes += [f"{audited.name}: {shift}" for shift in shifts if shift != main]

    def _refuse(self, mistake: str, remedy: str = "name other files") -> None:
        if not self._allow:
            advice = f"{remedy}, or insist with --allow-suspect-data"
            raise SuspectTextError(f"{mistake}; that can only be a mistake: {advice}")
        if mistake not in self.notes:
            self.notes.append(mistake)


@dataclass
class _Audited:
    """A source, and what was found in it once it has been gone through."""

    name: str
    source: PairSource
    full: int = 0
    """Pairs with text on both sides."""
    copies: int = 0
    """Of these, the targets with letters that are their sources."""
    shifts: Future[tuple[list[str], str | None]] | None = None
    """Descriptions of stretches that are shifted; the longest one's, if most pairs are in one."""


class _Scored(NamedTuple):
    """The splits that are looked for in the training text; a task gets them as files."""

    files: tuple[tuple[str, ParallelFiles], ...] = ()
    languages: tuple[str, str] = ("", "")
    audit: str = ""
    """A name that no other audit has: for other contents of the same files."""


class _Wanted(NamedTuple):
    """The first pairs of the splits, to be looked for."""

    numbers: dict[int, int]
    """Of all splits' pairs, by hash."""
    splits: dict[str, set[int]]
    """The numbers of each split's pairs."""
    samples: Samples


@lru_cache(maxsize=1)
def _look_for(scored: _Scored) -> _Wanted:
    numbers: dict[int, int] = {}
    texts = {
        name: list(islice(keep_full(files.pairs()), LOOKED_FOR)) for name, files in scored.files
    }
    splits = {
        name: {numbers.setdefault(hash(pair), len(numbers)) for pair in pairs}
        for name, pairs in texts.items()
    }
    return _Wanted(numbers, splits, Samples(texts, scored.languages))


class _Look:
    """Looks for the pairs of splits in a shard, and how near it is to a sample of these."""

    def __init__(self, scored: _Scored) -> None:
        self._scored = scored
        self.nearest = np.zeros(1, np.float32)
        self.found: set[int] = set()
        """Numbers of the pairs."""

    def look(self, batch: Sequence[tuple[str, str]]) -> None:
        """Look at some pairs."""
        wanted = _look_for(self._scored)
        self.nearest = np.maximum(self.nearest, wanted.samples.held_out.find_nearest(batch))
        numbers = map(wanted.numbers.get, map(hash, batch))
        self.found.update(number for number in numbers if number is not None)


def _first_shards(shards: Sequence[Shard]) -> list[Shard]:
    """Return the shards with the pairs that are compared with their neighbours."""
    sizes = (len(shard) if isinstance(shard, PairRange) else _SHIFT_PAIRS for shard in shards)
    starts = accumulate(sizes, initial=0)
    return [shard for shard, start in zip(shards, starts, strict=False) if start < _SHIFT_PAIRS]


def _find_shifts(shards: Sequence[Shard]) -> tuple[list[str], str | None]:
    """Return descriptions of what is shifted; and the longest stretch's, if most pairs are."""
    check = ShiftCheck()
    for batch in in_batches(chain.from_iterable(shard.pairs() for shard in shards)):
        check.add(batch)
        if check.pairs >= _SHIFT_PAIRS:
            break
    shifts = check.find_shifts()
    lengths = [shift.end - shift.first for shift in shifts]
    told = [shift.describe(check.pairs) for shift in shifts]
    is_most = sum(lengths) > MOSTLY * check.pairs
    return told, told[lengths.index(max(lengths))] if is_most else None


def find_mistaken_files(data: DataSection, training: Sources, scored: Sources) -> Iterator[str]:
    """Yield a message for each file that is used twice, and each text whose sides are swapped."""
    more_training, more_scored = {}, {}
    if isinstance(data, CorpusData):  # whose splits are made of other files
        numbered = enumerate(data.sources)
        more_training = {f"data.sources[{number}]": source for number, source in numbered}
        more_scored = given_sources(data)
    one_language = data.src_lang == data.tgt_lang
    all_training = {**training, **_text_files(more_training)}
    yield from _same_files(all_training, {**scored, **_text_files(more_scored)}, one_language)
    yield from _swapped_sides({**training, **scored}, (data.src_lang, data.tgt_lang))


def _text_files(sources: Mapping[str, SourceConfig]) -> Sources:
    return {
        name: ParallelFiles(source.src, source.tgt)
        for name, source in sources.items()
        if source.src is not None and source.tgt is not None
    }


def _same_files(training: Sources, scored: Sources, one_language: bool) -> Iterator[str]:
    """Yield a message for each file that is used for two things that exclude each other."""
    for name, source in {**training, **scored}.items():
        if isinstance(source, ParallelFiles) and not one_language and is_same_file(*_sides(source)):
            yield f"{name}: {source.src} is its source and its target"
    for name, source in scored.items():
        trained_on = (
            f"{name}: {path} is trained on, as part of {part}"
            for path in _sides(source)
            for part, text in training.items()
            if any(is_same_file(path, other) for other in _sides(text))
        )
        yield from islice(trained_on, 1)


def _sides(source: PairSource) -> tuple[Path, ...]:
    return (source.src, source.tgt) if isinstance(source, ParallelFiles) else ()


def _swapped_sides(sources: Sources, languages: tuple[str, str]) -> Iterator[str]:
    """Yield a message for each text whose sides are swapped, judged by their scripts."""
    src_scripts, tgt_scripts = map(scripts_of, languages)
    if src_scripts is None or tgt_scripts is None or src_scripts & tgt_scripts:
        return
    for name, source in sources.items():
        pairs = list(islice(source.pairs(), _LOOKED_AT))
        # Whether most lines of a side are in no script of a language, for both of each.
        foreign = [
            2 * sum(check.foreign_script(pair[side]) is not None for pair in pairs) > len(pairs)
            for side in (0, 1)
            for check in map(ScriptCheck, languages)
        ]
        if foreign == [True, False, False, True]:
            src, tgt = languages
            found = f"its source is in the script of '{tgt}' and its target in that of '{src}'"
            yield f"{name}: {found}, so they are swapped"
