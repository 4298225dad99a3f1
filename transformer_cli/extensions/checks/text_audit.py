"""An audit of an experiment's text: mistakes, and shifted sides.

``train`` has it done before training, and refuses mistakes; ``check`` reports all that is found.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError
from transformer_cli.base.files import is_same_file
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data.corpus import (
    PairSource,
    ParallelFiles,
    StreamedText,
    check_pairs,
    in_batches,
)
from transformer_cli.data.kinds import open_kind, open_split
from transformer_cli.extensions.checks.options import SuspectOptions
from transformer_cli.extensions.checks.shift import Shift, ShiftCheck
from transformer_cli.extensions.revision.doubts import ScriptCheck
from transformer_cli.extensions.revision.foreign_scripts import scripts_of

Sources = Mapping[str, PairSource]

_MOSTLY = 0.5  # share of a text from which it is shifted as a whole
_LOOKED_AT = 1000  # pairs of a split whose script is looked at
# First pairs of a text that are looked at, at 20 µs each.
_MOST_PAIRS = 1_000_000


class TextAudit:
    """Audits an experiment's text; an ``ExperimentCheck``.

    What can only be a mistake is refused by a ConfigError, or noted: if an option among ``extras``
    says so, or training ``is_begun``; then a test split may be missing, too. ``place`` is where the
    run keeps or found its text. The first ``most_pairs`` of each text are looked at.
    """

    def __init__(
        self,
        data: DataSection,
        place: Path | None,
        training: Sources,
        *,
        extras: Sequence[object],
        is_begun: bool,
        most_pairs: int = _MOST_PAIRS,
    ) -> None:
        self.notes: list[str] = []
        self.mistakes: list[str] = []
        self._data = data
        insists = (each.allow_suspect_data for each in extras if isinstance(each, SuspectOptions))
        self._allow = is_begun or any(insists)
        self._is_begun = is_begun
        self._one_language = data.src_lang == data.tgt_lang
        self._place = place
        self._most_pairs = most_pairs
        self._trained = training
        self._scored: dict[str, PairSource] = {}
        self._sums: dict[str, str] = {}
        """The SHA-256 of the texts that are scored."""
        self._shifts: dict[str, list[Shift]] = {}

    def check_scored(self) -> None:
        """Read the splits to validate and evaluate on.

        A CorpusError is raised if one is missing, misaligned, damaged or blank.
        """
        kind, scored = open_kind(self._data), dict[str, PairSource]()
        _, *names = kind.split_names()
        for name in names:
            if name != "val" and not kind.is_here(name, self._place):
                continue
            try:
                source = open_split(self._data, name, self._place)
                self._sums[name] = StreamedText.of(source).stats.text_sha256
                scored[name] = source
            except CorpusError as error:
                if name == "val" or not self._is_begun:
                    raise type(error)(f"split '{name}': {error}") from error
                self.notes.append(f"{name}: cannot be evaluated on: {error}")
        self.expect(scored)
        for name in scored:
            self.conclude_scored(name, self._sums[name])

    def expect(self, scored: Sources) -> None:
        """Check the names of all files."""
        self._scored = dict(scored)
        languages = (self._data.src_lang, self._data.tgt_lang)
        training, given = _find_text_files(self._data)
        for mistake in chain(
            _trained_files({**self._trained, **training}, {**scored, **given}),
            _swapped_sides({**self._trained, **scored}, languages),
        ):
            self._refuse(mistake)

    def conclude(self, text_sha256: str, is_known: bool, executor: Executor | None = None) -> None:
        """Look at the training text by tasks, and note what is found, unless it was noted before.

        ``text_sha256`` is that of the whole text.
        """
        for name, other in self._sums.items():
            if other == text_sha256:
                self._refuse(f"{name}: its text is the training text")
        if is_known:
            return
        looks = [(name, self._submit(source, executor)) for name, source in self._trained.items()]
        for name, look in looks:
            seen = look.result()
            self._conclude_pairs(name, seen)
            bad = getattr(self._trained[name], "bad", None)  # units of formats that are not lines
            if bad is not None and bad.count:
                found = f"{bad.count:,} of {bad.units:,} units cannot be read ({bad.why})"
                self.notes.append(f"{name}: {found}")

    def conclude_scored(self, name: str, text_sha256: str) -> None:
        """Look at a text that is scored, whose SHA-256 is given, and note what is found."""
        self._sums[name] = text_sha256
        self._conclude_pairs(name, self._submit(self._scored[name], None).result())

    def _submit(self, source: PairSource, executor: Executor | None) -> "Future[_Seen]":
        if isinstance(source, ParallelFiles):
            source = _absolute(source)
        else:  # which may be anything, so that it stays here
            executor = None
        return (executor or SerialExecutor()).submit(_look_at, source, self._most_pairs)

    def _conclude_pairs(self, name: str, seen: "_Seen") -> None:
        if seen.full and seen.copies == seen.full and not self._one_language:
            self._refuse(f"{name}: each target is its source, so one file is both")
        self._shifts[name] = seen.shifts
        lengths = [shift.end - shift.first for shift in seen.shifts]
        main = None
        if sum(lengths) > _MOSTLY * seen.pairs:
            main = seen.shifts[lengths.index(max(lengths))]
            most = f"{name}: most of its lines are shifted against each other"
            self._refuse(most, f", {main.describe(seen.pairs)}", "fix the files")
        others = (shift.describe(seen.pairs) for shift in seen.shifts if shift != main)
        self.notes += [f"{name}: {shift}" for shift in others]

    def find_shifts(self, name: str) -> list[Shift]:
        """Return where the sides of a text that was looked at are shifted."""
        return self._shifts.get(name, [])

    def _refuse(self, mistake: str, detail: str = "", remedy: str = "name other files") -> None:
        message = f"{mistake}{detail}"
        if not self._allow:
            advice = f"{remedy}, or insist with --allow-suspect-data"
            raise ConfigError(f"{message}; that can only be a mistake: {advice}")
        if message not in self.notes:
            self.notes.append(message)
            self.mistakes.append(mistake)


class _Seen(NamedTuple):
    """What was seen of the first pairs of a text."""

    pairs: int
    full: int
    """Pairs with text on both sides."""
    copies: int
    """Of these, the targets with letters that are their sources."""
    shifts: list[Shift]


def _look_at(source: PairSource, most: int) -> _Seen:
    """Look at the first pairs of a text, for shifted sides and copies."""
    shifts, full, copies = ShiftCheck(), 0, 0
    for batch in in_batches(source.pairs()):
        shifts.add(batch)
        stats = check_pairs(batch)
        full += stats.full
        copies += stats.copied
        if shifts.pairs >= most:
            break
    return _Seen(shifts.pairs, full, copies, shifts.find_shifts())


def _absolute(files: ParallelFiles) -> ParallelFiles:
    """Return the same files for a task, which may run elsewhere."""
    return replace(files, src=files.src.absolute(), tgt=files.tgt.absolute())


def _find_text_files(data: DataSection) -> tuple[Sources, Sources]:
    """Return the text files that splits are made from, by name: to train on, and to score.

    A kind of data whose text is made from others says which by the fact ``text files``.
    """
    entry = registry.find("corpus", data.kind)
    if entry is None or "text files" not in entry.facts:
        return {}, {}
    training, scored = entry.load("text files")(data)
    return training, scored


def _trained_files(training: Sources, scored: Sources) -> Iterator[str]:
    """Yield a message for each text to score of which a file is trained on."""
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
