"""Checks of an experiment's text before training.

The splits to validate and to evaluate on are read. The training text is looked at where it is
streamed anyway, so that a run that goes on starts as soon as before. ``check`` looks more closely.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path

from transformer_cli.audit.shift import ShiftCheck
from transformer_cli.config.data_schema import CopyData, CorpusData, DataConfig, SourceConfig
from transformer_cli.data.corpus import (
    ConcatenatedSources,
    PairSource,
    ParallelFiles,
    ParallelText,
    StreamedText,
    in_batches,
)
from transformer_cli.data.filters.rules import ScriptCheck
from transformer_cli.data.prepared import given_sources
from transformer_cli.data.sources import (
    default_split,
    is_on_disk,
    open_split,
    open_training_parts,
    split_names,
)
from transformer_cli.errors import CorpusError, SuspectTextError
from transformer_cli.files import is_same_file
from transformer_cli.text.scripts import scripts_of

Sources = Mapping[str, PairSource]
ALL_COPIED = "{}: each target is its source, so one file is both"
TRAINED_TEXT = "{}: its text is the training text"

LARGE_OVERLAP = 0.01  # share of a split that is trained on, from which it is worth a line
_LOOKED_FOR = 20_000  # pairs of a split that are looked for in the training text
_LOOKED_AT = 1000  # pairs of a split whose script is looked at
# First pairs of a text that are compared with their neighbours, at 20 µs each; `check` does all.
_SHIFT_PAIRS = 1_000_000


class TextAudit:
    """Checks an experiment's text while it is prepared, and collects notes.

    What can only be a mistake is refused by a SuspectTextError, or noted: if ``allow`` says so, or
    training ``is_begun``; then a test split may be missing, too. ``earlier`` is where the run found
    Multi30k before.
    """

    def __init__(
        self, data: DataConfig, allow: bool, is_begun: bool, earlier: Path | None = None
    ) -> None:
        self.notes: list[str] = []  # a line each, that begins with a split's name
        self._data = data
        self._allow = allow or is_begun
        self._is_begun = is_begun
        self._one_language = data.src_lang == data.tgt_lang
        self.earlier = earlier
        self._training = open_training_parts(data, earlier)
        self._watched = [_Watched(name, source) for name, source in self._training.items()]
        self._scored: list[_Watched] = []
        self._text_sha256s: dict[str, str] = {}

    def look_at_scored(self) -> None:
        """Check all files' names, and read the splits to validate and evaluate on.

        A CorpusError is raised if one is missing, misaligned, damaged or blank.
        """
        if isinstance(self._data, CopyData):  # made as it has to be
            return
        scored = dict(self._open_scored())
        for mistake in find_mistaken_files(self._data, self._training, scored):
            self._refuse(mistake)
        for name, source in scored.items():
            watched = _Watched(name, source)
            try:
                self._text_sha256s[name] = StreamedText.of(watched).stats.text_sha256
            except CorpusError as error:
                self._miss(name, error)
            else:
                self._scored.append(watched)
                self._check_pairs(watched)

    def _open_scored(self) -> Iterator[tuple[str, ParallelFiles | ParallelText]]:
        _, *names = split_names(self._data)
        for name in names:
            if name == "val" or is_on_disk(self._data, name, self.earlier):
                source = open_split(self._data, name, self.earlier)
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
            raise CorpusError(f"split '{name}': {error}") from error
        self.notes.append(f"{name}: cannot be evaluated on: {error}")

    def training_text(self) -> PairSource:
        """Return the training text, which is checked in its first pass."""
        wanted: dict[int, list[_Watched]] = {}
        for scored in self._scored:
            for pair in scored.seen:
                wanted.setdefault(pair, []).append(scored)
        for part in self._watched:
            part.wanted = wanted
        first, *more = self._watched
        return ConcatenatedSources((first, *more)) if more else first

    def conclude(self, text_sha256: str) -> None:
        """Note what was found in the training text, if it has been gone through, and is its sum."""
        for name, other in self._text_sha256s.items():
            if other == text_sha256:
                self._refuse(TRAINED_TEXT.format(name))
        for part in self._watched:
            self._check_pairs(part)
        for scored in self._scored:
            count, trained = len(scored.seen), scored.trained
            if trained and trained >= LARGE_OVERLAP * count:
                shared = f"{trained:,} of {count:,} pairs are trained on too"
                self.notes.append(f"{scored.name}: {shared}")

    def _check_pairs(self, watched: "_Watched") -> None:
        if watched.count and watched.copies == watched.count and not self._one_language:
            self._refuse(ALL_COPIED.format(watched.name))
        for shift in watched.shift.find_shifts():
            self.notes.append(f"{watched.name}: {shift.describe(watched.shift.pairs)}")

    def _refuse(self, mistake: str) -> None:
        if not self._allow:
            advice = "name other files, or insist with --allow-suspect-data"
            raise SuspectTextError(f"{mistake}; that can only be a mistake: {advice}")
        if mistake not in self.notes:
            self.notes.append(mistake)


class _Watched:
    """A source that is checked in its first pass."""

    def __init__(self, name: str, source: PairSource) -> None:
        self.name, self.source = name, source
        self.shift = ShiftCheck()
        self.count = self.copies = self.trained = 0
        # Of a split that is not trained on: its first different pairs, by a number each. The same
        # of all such splits, with those that each is in, is given to what is trained on.
        self.seen: dict[int, None] = {}
        self.wanted: dict[int, list[_Watched]] | None = None
        self._is_fresh = True

    def pairs(self) -> Iterator[tuple[str, str]]:
        if not self._is_fresh:
            return self.source.pairs()
        self._is_fresh = False
        return chain.from_iterable(self._looked_at())

    def _looked_at(self) -> Iterator[list[tuple[str, str]]]:
        for batch in in_batches(self.source.pairs()):
            if self.shift.pairs < _SHIFT_PAIRS:
                self.shift.add(batch)
            for src, tgt in batch:
                if src.strip() and tgt.strip():
                    self.count += 1
                    self.copies += src == tgt and any(map(str.isalpha, src))
                    pair = hash((src, tgt))
                    if self.wanted is not None:
                        for scored in self.wanted.pop(pair, ()):
                            scored.trained += 1
                    elif len(self.seen) < _LOOKED_FOR:
                        self.seen[pair] = None
            yield batch

    def source_sha256(self) -> str:
        return self.source.source_sha256()

    def mtime_key(self) -> str | None:
        return self.source.mtime_key()


def find_mistaken_files(data: DataConfig, training: Sources, scored: Sources) -> Iterator[str]:
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
