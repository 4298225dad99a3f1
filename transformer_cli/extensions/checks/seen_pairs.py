"""Test pairs of which a model has seen a side in training, and how near it has seen others."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from transformer_cli.base.errors import CorpusError, TransformerCliError
from transformer_cli.base.files import read_json
from transformer_cli.base.locations import open_regular
from transformer_cli.base.messages import show_progress
from transformer_cli.base.packages import lazy_imports
from transformer_cli.data.corpus import ParallelText, StreamedText
from transformer_cli.data.kinds import open_kind, open_training_text
from transformer_cli.data.store import read_stats
from transformer_cli.extensions.checks.digests import (
    NO_DIGEST,
    digest,
    digest_pairs,
    fold_side,
    is_among,
)
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_text_sha256

with lazy_imports():
    from transformer_cli.extensions.checks import near_copies

_PAGE_PAIRS = 1 << 14
_DIGEST_BYTES = 16  # of a pair, both sides


@dataclass(frozen=True)
class SeenPairs:
    """Which pairs of a text are trained on: masks over its pairs."""

    by_src: np.ndarray  # those whose source is a line of the training text
    by_tgt: np.ndarray
    unknown: list[Path]  # runs that took part in it, and whose training text is not known

    @property
    def rest(self) -> list[int]:
        """Numbers of the pairs of which no side is trained on."""
        numbers: list[int] = np.flatnonzero(~(self.by_src | self.by_tgt)).tolist()
        return numbers

    def report(self) -> dict[str, Any]:
        return {
            "pairs": len(self.by_src) - len(self.rest),
            "by_source": int(self.by_src.sum()),
            "by_target": int(self.by_tgt.sum()),
            "unknown": [path.as_posix() for path in self.unknown],
        }


def describe_seen(report: Mapping[str, Any], sentences: int, who: str) -> list[str]:
    """Return lines about the pairs that ``who`` has seen, or may have, by ``SeenPairs.report``."""
    lines = []
    if report["pairs"]:
        lines.append(
            f"{who} has seen {report['pairs']:,} of {sentences:,} pairs in training "
            f"({report['by_source']:,} by source, {report['by_target']:,} by target)"
        )
    if report["unknown"]:
        runs = ", ".join(report["unknown"])
        more = "more of them" if report["pairs"] else "any of them"
        lines.append(
            f"cannot tell if {who} has seen {more}: the training text of {runs} is not here"
        )
    return lines


def find_seen(runs: Sequence[RunDirectory], text: ParallelText) -> SeenPairs:
    """Find the pairs of which a side is a line of the text that models were trained on.

    Lines are compared as splits are drawn: without format characters and extra white space. What a
    run was trained on is its own text, replayed text included; that of the run that it starts from;
    and if it was distilled, that of its teachers. ``progress`` wraps a pass over the training text
    of runs that have no record of its lines.
    """
    languages = _languages(runs[0])
    seen = SeenPairs(np.zeros(len(text), bool), np.zeros(len(text), bool), [])
    sides = (
        (languages[0], _digest(text.src), seen.by_src),
        (languages[1], _digest(text.tgt), seen.by_tgt),
    )
    for run in _find_origins(runs):
        try:
            trained_languages = _languages(run)
            for page in _read_trained_lines(run):
                # The run that one starts from may have been trained the other way round.
                for trained_language, trained in zip(trained_languages, page.T, strict=True):
                    for language, digests, mask in sides:
                        if language == trained_language:
                            # Few of many lines are ours, so sorting those alone is faster.
                            ours = trained[is_among(trained, np.unique(digests))]
                            is_seen = is_among(digests, np.unique(ours))
                            mask |= is_seen & (digests != NO_DIGEST)
        except (TransformerCliError, OSError):
            seen.unknown.append(run.path)
    return seen


def find_nearest(runs: Sequence[RunDirectory], text: ParallelText) -> tuple[list[int], list[Path]]:
    """Return which of ``BANDS`` each pair is in by the nearest that models were trained on.

    What a run was trained on is said of ``find_seen``. Its text is read for that; the runs whose
    text is not here are returned, too.
    """
    languages = _languages(runs[0])
    pairs = list(text.pairs())
    nearest = np.zeros(len(pairs), np.float32)
    unknown: list[Path] = []
    for run in _find_origins(runs):
        try:
            trained_languages = _languages(run)
            if trained_languages not in (languages, languages[::-1]):
                continue
            for some in near_copies.cut_held_out(pairs, languages):
                trained = _read_trained_text(run)
                if trained_languages != languages:
                    trained = ((tgt, src) for src, tgt in trained)
                found = near_copies.HeldOutPairs(pairs[some], languages).find_nearest(trained)
                nearest[some] = np.maximum(nearest[some], found)
        except (TransformerCliError, OSError):
            unknown.append(run.path)
    return near_copies.find_bands(nearest).tolist(), unknown


def _languages(run: RunDirectory) -> tuple[str, str]:
    data = run.load_config().data
    return data.src_lang, data.tgt_lang


def _digest(lines: Iterable[str]) -> np.ndarray:
    """Return the digest of each line; ``NO_DIGEST`` for blank ones."""
    folded = [fold_side(line) for line in lines]
    return np.where([line != "" for line in folded], digest(folded), NO_DIGEST)


def _find_origins(runs: Sequence[RunDirectory]) -> Iterator[RunDirectory]:
    """Yield each run, those that they start from, and the teachers of distilled ones."""
    pending, known = list(runs), set[str]()
    while pending:
        run = pending.pop(0)
        try:
            path = os.path.realpath(run.path)  # raises nothing where links lead in a circle
        except ValueError:  # no file has such a name
            continue
        if path in known:
            continue
        known.add(path)
        yield run
        pending += _find_teachers(run)
        with suppress(TransformerCliError, OSError):  # where it is not there any more
            init = run.load_config().init
            pending += [] if init is None else [RunDirectory(init)]


def _find_teachers(run: RunDirectory) -> list[RunDirectory]:
    """Return the runs whose translations a distilled student was trained on, by distill.json."""
    path = Path(os.path.realpath(run.path))
    if path.name.partition(".")[0] == "student":  # or student.DATE, which was set aside
        match read_json(path.parent / "distill.json"):
            case {"teachers": [*teachers]}:
                names = {name for name in teachers if isinstance(name, str)}
                return [RunDirectory(Path(name)) for name in sorted(names)]
    return []


def _read_trained_lines(run: RunDirectory) -> Iterator[np.ndarray]:
    """Yield digests of the lines that a run was trained on, two a pair; raise if it has none."""
    stats, path = read_stats(run.encoded), run.encoded / "lines"
    is_known = stats is not None and stats.text_sha256 == load_text_sha256(run.tokenizer)
    recorded = path.stat().st_size if is_known and path.is_file() else None
    if stats is not None and recorded == stats.pairs * _DIGEST_BYTES:
        with open_regular(path) as file:
            while chunk := file.read(_DIGEST_BYTES << 17):
                yield np.frombuffer(chunk, "<u8").reshape(-1, 2)
        return
    pairs = _read_trained_text(run)
    while page := list(islice(pairs, _PAGE_PAIRS)):
        yield np.frombuffer(digest_pairs(page), "<u8").reshape(-1, 2)


def _read_trained_text(run: RunDirectory) -> Iterator[tuple[str, str]]:
    """Return the pairs that a run was trained on; raise CorpusError if they are not here."""
    data, earlier = run.load_config().data, run.text_place
    if not open_kind(data).is_here("train", earlier):
        raise CorpusError(f"{run.path}: its training text is not on disk")
    text = StreamedText.of(open_training_text(data, earlier), read_stats(run.encoded))
    if text.stats.text_sha256 != load_text_sha256(run.tokenizer):
        raise CorpusError(f"{run.path}: its training text has changed")
    return iter(show_progress(text.pairs(), f"{run.path.name}'s training text", " pairs"))
