"""Find test pairs of which a model has seen the source or the target in training."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer_cli.base.errors import CorpusError, TransformerCliError
from transformer_cli.base.files import read_json
from transformer_cli.base.messages import show_progress
from transformer_cli.data.corpus import ParallelText, StreamedText
from transformer_cli.data.kinds import open_kind, open_training_text
from transformer_cli.data.store import read_stats
from transformer_cli.extensions.checks.folding import fold_side
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_manifest


@dataclass(frozen=True)
class SeenPairs:
    """Which pairs of a text have a source or a target that is also in the training text."""

    by_src: np.ndarray  # pairs whose source is a line of the training text
    by_tgt: np.ndarray
    unknown: list[Path]  # contributing runs whose training text is not known

    @property
    def rest(self) -> list[int]:
        """The indices of the pairs whose source and target are both not in the training text."""
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
    """Return messages about the pairs that ``who``, e.g. 'the model', has or may have seen."""
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
            f"cannot tell if {who} has seen {more}: the training text of {runs} is missing"
        )
    return lines


def find_seen(runs: Sequence[RunDirectory], text: ParallelText) -> SeenPairs:
    """Find the pairs whose source or target is also a line of the models' training text.

    Lines are compared without format characters or extra whitespace, as when splits are drawn. A
    run's training text includes replayed text, the training text of the run that it started from
    and, for a distilled run, the training text of its teachers. All of it is read.
    """
    sides = [list(map(fold_side, lines)) for lines in (text.src, text.tgt)]
    seen: tuple[set[str], set[str]] = (set(), set())
    own = list(zip(_languages(runs[0]), map(set, sides), seen, strict=True))
    unknown: list[Path] = []
    for run in _find_origins(runs):
        try:
            # The run that a run starts from may have been trained in the other direction.
            compared = [
                (side, wanted, found)
                for side, trained in enumerate(_languages(run))
                for language, wanted, found in own
                if language == trained
            ]
            for pair in _read_trained_text(run) if compared else ():
                for side, wanted, found in compared:
                    if (line := fold_side(pair[side])) in wanted:
                        found.add(line)
        except (TransformerCliError, OSError):
            unknown.append(run.path)
    by_src, by_tgt = (
        np.array([line != "" and line in found for line in lines], bool)
        for lines, found in zip(sides, seen, strict=True)
    )
    return SeenPairs(by_src, by_tgt, unknown)


def _languages(run: RunDirectory) -> tuple[str, str]:
    data = run.load_config().data
    return data.src_lang, data.tgt_lang


def _find_origins(runs: Sequence[RunDirectory]) -> Iterator[RunDirectory]:
    """Yield each run, the runs that it started from, and its teachers if it is distilled."""
    pending, known = list(runs), set[str]()
    while pending:
        run = pending.pop(0)
        try:
            path = os.path.realpath(run.path)  # does not fail on circular links
        except ValueError:  # no file has such a name
            continue
        if path in known:
            continue
        known.add(path)
        yield run
        pending += _find_teachers(Path(path))
        with suppress(TransformerCliError, OSError):  # if the run no longer exists
            init = run.load_config().init
            pending += [] if init is None else [RunDirectory(init)]


def _find_teachers(run: Path) -> list[RunDirectory]:
    """Return the teachers of a distilled student, which distill.json names; [] for other runs."""
    if run.name.partition(".")[0] == "student":  # or student.DATE, a student that was set aside
        match read_json(run.parent / "distill.json"):
            case {"teachers": [*teachers]}:
                names = {name for name in teachers if isinstance(name, str)}
                return [RunDirectory(Path(name)) for name in sorted(names)]
    return []


def _read_trained_text(run: RunDirectory) -> Iterator[tuple[str, str]]:
    """Return the pairs a run was trained on; raise CorpusError if they are missing or changed."""
    data, earlier = run.load_config().data, run.text_place
    if not open_kind(data).is_here("train", earlier):
        raise CorpusError(f"{run.path}: its training text is not on disk")
    text = StreamedText.of(open_training_text(data, earlier), read_stats(run.encoded))
    if text.stats.text_sha256 != load_manifest(run.tokenizer).learned_from:
        raise CorpusError(f"{run.path}: its training text has changed")
    return iter(show_progress(text.pairs(), f"{run.path.name}'s training text", " pairs"))
