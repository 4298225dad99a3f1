"""Audit an experiment's text for mistakes and misaligned sides.

``train`` runs the audit before training and refuses mistakes; ``check`` reports all findings.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, CorpusError
from transformer_cli.base.files import is_same_file
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.config.data_schema import DataSection
from transformer_cli.data import corpus
from transformer_cli.data.kinds import open_kind, open_split
from transformer_cli.extensions.checks.options import SuspectOptions
from transformer_cli.extensions.checks.shift import Shift, ShiftCheck
from transformer_cli.extensions.revision.doubts import ScriptCheck
from transformer_cli.extensions.revision.foreign_scripts import scripts_of

Sources = Mapping[str, corpus.PairSource]

_MOSTLY = 0.5  # a text counts as shifted as a whole from this share
_LOOKED_AT = 1000  # pairs of a split whose script is checked
# How many of a text's first pairs are checked; each takes 20 µs.
_MOST_PAIRS = 1_000_000


class TextAudit:
    """An ``ExperimentCheck`` that looks for mistakes and misaligned lines in an experiment's text.

    A definite mistake raises ConfigError, but is only noted if an option among ``extras`` allows it
    or if training ``is_begun``; in the latter case, test splits may also be missing. ``place`` is
    the run's directory for its text. The audit looks at the first ``most_pairs`` of each text.
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
        self._place = place
        self._most_pairs = most_pairs
        self._trained = training
        self._sums: dict[str, str] = {}
        """The SHA-256 checksums of the val and test texts, keyed by split."""
        self.shifts: dict[str, list[Shift]] = {}
        """The shifts found in each checked text, keyed by the name of the split or source."""

    def check_scored(self) -> None:
        """Read and audit the val and test splits.

        Raises:
            CorpusError: a split is missing, misaligned, damaged or blank.
        """
        kind, scored = open_kind(self._data), dict[str, corpus.PairSource]()
        _, *names = kind.split_names()
        for name in names:
            if name != "val" and not kind.is_here(name, self._place):
                continue
            try:
                source = open_split(self._data, name, self._place)
                self._sums[name] = corpus.StreamedText.of(source).stats.text_sha256
                scored[name] = source
            except CorpusError as error:
                if name == "val" or not self._is_begun:
                    raise type(error)(f"split '{name}': {error}") from error
                self.notes.append(f"{name}: cannot be evaluated: {error}")
        self.expect(scored)
        for name, text in scored.items():
            self.conclude_scored(name, text, self._sums[name])

    def expect(self, scored: Sources) -> None:
        """Check all texts for files used twice and for swapped sides."""
        languages = (self._data.src_lang, self._data.tgt_lang)
        training, given = _find_text_files(self._data)
        for mistake in chain(
            _trained_files({**self._trained, **training}, {**scored, **given}),
            _swapped_sides({**self._trained, **scored}, languages),
        ):
            self._refuse(mistake)

    def conclude(self, text_sha256: str, is_known: bool, executor: Executor | None = None) -> None:
        """Check the training text, in tasks of ``executor``, and note the findings.

        ``text_sha256`` is the whole text's checksum; ``is_known`` says that it was checked before.
        """
        for name, other in self._sums.items():
            if other == text_sha256:
                self._refuse(f"{name}: its text equals the training text")
        if is_known:
            return
        looks = [(name, self._submit(source, executor)) for name, source in self._trained.items()]
        for name, look in looks:
            self._conclude_pairs(name, look.result())
            bad = getattr(self._trained[name], "bad", None)  # units that a format could not read
            if bad is not None and bad.count:
                found = f"{bad.count:,} of {bad.units:,} units cannot be read ({bad.why})"
                self.notes.append(f"{name}: {found}")

    def conclude_scored(self, name: str, source: corpus.PairSource, text_sha256: str) -> None:
        """Check a val or test text, which has this SHA-256, and note the findings."""
        self._sums[name] = text_sha256
        self._conclude_pairs(name, _look_at(source, self._most_pairs))

    def _submit(self, source: corpus.PairSource, executor: Executor | None) -> "Future[_Seen]":
        if isinstance(source, corpus.ParallelFiles):
            # The task may run in another working directory.
            source = replace(source, src=source.src.absolute(), tgt=source.tgt.absolute())
        else:  # another source may not work in a worker, so read it here
            executor = None
        return (executor or SerialExecutor()).submit(_look_at, source, self._most_pairs)

    def _conclude_pairs(self, name: str, seen: "_Seen") -> None:
        pairs, are_copies, self.shifts[name] = seen
        if are_copies and self._data.src_lang != self._data.tgt_lang:
            self._refuse(f"{name}: each target equals its source; the two files may be the same")
        shifts = list(self.shifts[name])
        if sum(shift.end - shift.first for shift in shifts) > _MOSTLY * pairs:
            shifts.remove(longest := max(shifts, key=lambda shift: shift.end - shift.first))
            most = f"{name}: most lines are misaligned"
            self._refuse(most, f", {longest.describe(pairs)}", "fix the files")
        self.notes += [f"{name}: {shift.describe(pairs)}" for shift in shifts]

    def _refuse(self, mistake: str, detail: str = "", remedy: str = "name other files") -> None:
        message = f"{mistake}{detail}"
        if not self._allow:
            advice = f"{remedy}, or use --allow-suspect-data"
            raise ConfigError(f"{message}; this can only be a mistake: {advice}")
        if message not in self.notes:
            self.notes.append(message)
            self.mistakes.append(mistake)


_Seen = tuple[int, bool, list[Shift]]
"""The number of pairs, whether all targets equal their sources, and where the sides are shifted."""


def _look_at(source: corpus.PairSource, most: int) -> _Seen:
    """Look for shifted lines and copied sources in the first ``most`` pairs of a text."""
    shifts, full, copies = ShiftCheck(), 0, 0
    for batch in corpus.in_batches(source.pairs()):
        shifts.add(batch)
        stats = corpus.check_pairs(batch)
        full += stats.full
        copies += stats.copied
        if shifts.pairs >= most:
            break
    return shifts.pairs, 0 < full == copies, shifts.find_shifts()


def _find_text_files(data: DataSection) -> tuple[Sources, Sources]:
    """Return the files that training text, and val and test text, are made from, keyed by name.

    A data kind that makes its text from other files has ``text files`` in its manifest.
    """
    entry = registry.find("corpus", data.kind)
    if entry is None or "text files" not in entry.facts:
        return {}, {}
    training, scored = entry.load("text files")(data)
    return training, scored


def _trained_files(training: Sources, scored: Sources) -> Iterator[str]:
    """Yield a message for each val or test text with a file that is also training text."""
    for name, source in scored.items():
        trained_on = (
            f"{name}: {path} is also training text, as part of {part}"
            for path in _paths(source)
            for part, text in training.items()
            if any(is_same_file(path, other) for other in _paths(text))
        )
        yield from islice(trained_on, 1)


def _paths(source: corpus.PairSource) -> tuple[Path, ...]:
    return source.paths if isinstance(source, corpus.ParallelFiles) else ()


def _swapped_sides(sources: Sources, languages: tuple[str, str]) -> Iterator[str]:
    """Yield a message for each text whose sides are swapped, judging by their scripts."""
    src_scripts, tgt_scripts = map(scripts_of, languages)
    if src_scripts is None or tgt_scripts is None or src_scripts & tgt_scripts:
        return
    for name, source in sources.items():
        pairs = list(islice(source.pairs(), _LOOKED_AT))
        # For each side and language: whether most lines are in a script the language does not use.
        foreign = [
            2 * sum(check.foreign_script(pair[side]) is not None for pair in pairs) > len(pairs)
            for side in (0, 1)
            for check in map(ScriptCheck, languages)
        ]
        if foreign == [True, False, False, True]:
            src, tgt = languages
            found = f"its source is in the script of '{tgt}' and its target in that of '{src}'"
            yield f"{name}: {found}, so the sides are swapped"
