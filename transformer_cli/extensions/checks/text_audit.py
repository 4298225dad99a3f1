"""An audit of an experiment's text: mistakes, shifted sides, and scored pairs that are trained on.

``train`` has it done before training, in the pass that reads the training text anyway, and refuses
mistakes; ``check`` reports all that is found.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np

from transformer_cli.base.errors import CorpusError, SuspectTextError
from transformer_cli.base.files import is_same_file
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import (
    BlockStats,
    PairSource,
    ParallelFiles,
    ParallelText,
    StreamedText,
    in_batches,
    keep_full,
)
from transformer_cli.data.kinds import (
    default_split,
    open_kind,
    open_split,
)
from transformer_cli.extensions.checks.checked_kind import Sources, find_checked
from transformer_cli.extensions.checks.near_copies import LOOKED_FOR, Nearness, Samples
from transformer_cli.extensions.checks.shift import Shift, ShiftCheck
from transformer_cli.extensions.revision.foreign_scripts import ScriptCheck, scripts_of

_MOSTLY = 0.5  # share of a text from which it is shifted as a whole
_LARGE_OVERLAP = 0.01  # share of a split that is trained on, from which it is worth a line
_LOOKED_AT = 1000  # pairs of a split whose script is looked at
# First pairs of a text that are compared with their neighbours, at 20 µs each.
_SHIFT_PAIRS = 1_000_000


class TextAudit:
    """Audits an experiment's text while it is read; an ``ExperimentCheck``.

    What can only be a mistake is refused by a SuspectTextError, or noted: if ``allow`` says so, or
    training ``is_begun``; then a test split may be missing, too. ``place`` is where the run keeps
    or found its text. The first ``shift_pairs`` of each text are searched for shifted sides.
    """

    def __init__(
        self,
        data: DataSection,
        place: Path | None,
        training: Sources,
        *,
        allow: bool,
        is_begun: bool,
        shift_pairs: int = _SHIFT_PAIRS,
    ) -> None:
        self.notes: list[str] = []
        self.details: list[str] = []
        self.mistakes: list[str] = []
        self.near: list[Nearness] = []
        """Of each split that is scored."""
        self._data = data
        self._checked = find_checked(data)
        self._allow = allow or is_begun
        self._is_begun = is_begun
        self._one_language = data.src_lang == data.tgt_lang
        self._place = place
        self._shift_pairs = shift_pairs
        self._trained = {name: _Audited(source, True) for name, source in training.items()}
        self._scored: dict[str, _Audited] = {}
        self._now = self._trained["train"]
        self._name = uuid4().hex
        self._found: set[int] = set()
        self._nearest = np.zeros(1, np.float32)

    def check_scored(self) -> None:
        """Check all files' names, and read the splits to validate and evaluate on.

        A CorpusError is raised if one is missing, misaligned, damaged or blank.
        """
        if self._checked.is_made:
            return
        self.expect(dict(self._open_scored()))
        for name, audited in [*self._scored.items()]:
            try:
                text = StreamedText.of(audited.source, checks=[self])
            except CorpusError as error:
                del self._scored[name]
                self._miss(name, error)
            else:
                self.conclude_scored(name, text.stats.text_sha256)

    def expect(self, scored: Sources) -> None:
        """Check the names of all files; the training text will be searched for the scored ones."""
        self._scored = {name: _Audited(source, False) for name, source in scored.items()}
        training = {name: audited.source for name, audited in self._trained.items()}
        if not self._checked.is_made:
            for mistake in _find_mistaken_files(self._data, training, scored):
                self._refuse(mistake)

    def _open_scored(self) -> Iterator[tuple[str, ParallelFiles | ParallelText]]:
        _, *names = open_kind(self._data).split_names()
        for name in names:
            if name == "val" or open_kind(self._data).is_here(name, self._place):
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

    def begin(self, source: PairSource, executor: Executor) -> "_Look":
        texts = (*self._trained.values(), *self._scored.values())
        self._now = next(each for each in texts if each.source is source)
        if isinstance(source, ParallelFiles):
            source = _absolute(source)
        else:  # which may be anything, so that it stays here
            executor = SerialExecutor()
        self._now.shifts = executor.submit(_find_shifts, source, self._shift_pairs)
        return _Look(self._describe_scored() if self._now.is_trained else _Scored())

    def _describe_scored(self) -> "_Scored":
        files = (
            (name, _absolute(source))
            for name, source in ((name, each.source) for name, each in self._scored.items())
            if isinstance(source, ParallelFiles)
        )
        return _Scored(tuple(files), (self._data.src_lang, self._data.tgt_lang), self._name)

    def merge(self, look: "_Look", stats: BlockStats) -> None:
        self._now.full += stats.full
        self._now.copies += stats.copied
        self._found |= look.found
        self._nearest = np.maximum(self._nearest, look.nearest)

    def conclude(self, text_sha256: str, is_known: bool) -> None:
        """Note what was found in the training text, unless it was noted before."""
        for name, other in self._scored.items():
            if other.text_sha256 == text_sha256 and not self._checked.is_made:
                self._refuse(f"{name}: its text is the training text")
        if is_known:
            return
        for name, trained in self._trained.items():
            self._conclude_pairs(name, trained)
            bad = getattr(trained.source, "bad", None)  # units of formats that are not lines
            if bad is not None and bad.count:
                found = f"{bad.count:,} of {bad.units:,} units cannot be read ({bad.why})"
                self.notes.append(f"{name}: {found}")
        wanted = _look_for(self._describe_scored())
        for name, pairs in wanted.splits.items():
            count = len(pairs & self._found)
            if count and count >= _LARGE_OVERLAP * len(pairs):
                self.notes.append(f"{name}: {count:,} of {len(pairs):,} pairs are trained on too")
        if self._checked.has_few_words:  # so that all is near
            return
        self.near = wanted.samples.conclude(self._nearest)
        for near in self.near:
            if near.is_large:
                share = f"{near.near / near.compared:.0%} of its pairs"
                self.notes.append(f"{near.name}: {share} {self.warn_of_near(near)}")
            self.details.append(f"{near.name}: {near.describe()}")

    def warn_of_near(self, near: Nearness) -> str:
        """Return what to say about the near-copies of a split's pairs."""
        advice = find_checked(self._data).advise_near(near.name)
        return f"have near-copies in the training text, which flatter scores{advice}"

    def conclude_scored(self, name: str, text_sha256: str) -> None:
        """Note what was found in a text that is scored."""
        self._scored[name].text_sha256 = text_sha256
        self._conclude_pairs(name, self._scored[name])

    def _conclude_pairs(self, name: str, audited: "_Audited") -> None:
        if audited.full and audited.copies == audited.full and not self._one_language:
            self._refuse(f"{name}: each target is its source, so one file is both")
        shifts = audited.find_shifts()
        lengths = [shift.end - shift.first for shift in shifts]
        main = None
        if sum(lengths) > _MOSTLY * audited.looked_at:
            main = shifts[lengths.index(max(lengths))]
            most = f"{name}: most of its lines are shifted against each other"
            self._refuse(most, f", {main.describe(audited.looked_at)}", "fix the files")
        others = (shift.describe(audited.looked_at) for shift in shifts if shift != main)
        self.notes += [f"{name}: {shift}" for shift in others]

    def find_shifts(self, name: str) -> list[Shift]:
        """Return where the sides of a text that was read are shifted."""
        return (self._scored.get(name) or self._trained[name]).find_shifts()

    def _refuse(self, mistake: str, detail: str = "", remedy: str = "name other files") -> None:
        message = f"{mistake}{detail}"
        if not self._allow:
            advice = f"{remedy}, or insist with --allow-suspect-data"
            raise SuspectTextError(f"{message}; that can only be a mistake: {advice}")
        if message not in self.notes:
            self.notes.append(message)
            self.mistakes.append(mistake)


@dataclass(eq=False)
class _Audited:
    """A source, and what was found in it once it has been gone through."""

    source: PairSource
    is_trained: bool
    full: int = 0
    """Pairs with text on both sides."""
    copies: int = 0
    """Of these, the targets with letters that are their sources."""
    shifts: Future[tuple[list[Shift], int]] | None = None
    """What is shifted, and of how many pairs."""
    text_sha256: str = ""

    def find_shifts(self) -> list[Shift]:
        """Return what is shifted; nothing of a known text, which was not read."""
        return [] if self.shifts is None else self.shifts.result()[0]

    @property
    def looked_at(self) -> int:
        return 0 if self.shifts is None else self.shifts.result()[1]


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
    """Looks for the pairs of splits in a block, and how near it is to a sample of these."""

    def __init__(self, scored: _Scored) -> None:
        self._scored = scored
        self.nearest = np.zeros(1, np.float32)
        self.found: set[int] = set()
        """Numbers of the pairs."""

    def look(self, batch: Sequence[tuple[str, str]]) -> None:
        if not self._scored.files:
            return
        wanted = _look_for(self._scored)
        self.nearest = np.maximum(self.nearest, wanted.samples.held_out.find_nearest(batch))
        numbers = map(wanted.numbers.get, map(hash, batch))
        self.found.update(number for number in numbers if number is not None)


def _absolute(files: ParallelFiles) -> ParallelFiles:
    """Return the same files for a task, which may run elsewhere."""
    return replace(files, src=files.src.absolute(), tgt=files.tgt.absolute())


def _find_shifts(source: PairSource, most: int) -> tuple[list[Shift], int]:
    """Return where the first pairs are shifted, and how many were looked at."""
    check = ShiftCheck()
    for batch in in_batches(source.pairs()):
        check.add(batch)
        if check.pairs >= most:
            break
    return check.find_shifts(), check.pairs


def _find_mistaken_files(data: DataSection, training: Sources, scored: Sources) -> Iterator[str]:
    """Yield a message for each file that is used twice, and each text whose sides are swapped."""
    more_training, more_scored = find_checked(data).files()
    one_language = data.src_lang == data.tgt_lang
    yield from _same_files({**training, **more_training}, {**scored, **more_scored}, one_language)
    yield from _swapped_sides({**training, **scored}, (data.src_lang, data.tgt_lang))


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
