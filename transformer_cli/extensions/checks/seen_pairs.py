"""Find and report test pairs of which a model has seen a side in training."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from transformer_cli.base.errors import CorpusError, TransformerCliError
from transformer_cli.base.files import read_json
from transformer_cli.base.messages import show_progress, warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.evaluate import ScoredText
from transformer_cli.config.choices import METRICS
from transformer_cli.data.corpus import ParallelText, StreamedText
from transformer_cli.data.kinds import open_kind, open_training_text
from transformer_cli.data.store import read_stats
from transformer_cli.extensions.checks.digests import fold_side
from transformer_cli.inference.translation import Notes, Translation
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_manifest

with lazy_imports():
    from transformer_cli.evaluation import scores


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


class SeenNotes(Notes):
    """Notes about the pairs of a scored text that the models have seen in training."""

    def __init__(self, scored: ScoredText) -> None:
        self._scored = scored
        self._seen = find_seen(scored.runs, scored.pairs)
        self._hypotheses: list[str] = []

    def look(self, number: int, src: str, found: Sequence[Translation]) -> Iterable[str]:
        self._hypotheses.append(found[0].text)
        return ()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The number of seen pairs, and the scores without these pairs."""
        rest = self._seen.rest
        if not rest:
            problem = "all its pairs were seen in training, so its scores are not meaningful"
            warn(self._scored.name, problem)
        is_part = 0 < len(rest) < len(self._seen.by_src)
        return {"seen": {**self._seen.report(), "rest": self._score(rest) if is_part else None}}

    def _score(self, numbers: Sequence[int]) -> dict[str, Any]:
        """Return the number and the scores of the pairs with these indices."""
        sides = (self._hypotheses, self._scored.pairs.tgt)
        translated, references = ([side[number] for number in numbers] for side in sides)
        found = {
            name: scores.measure(metric, translated, references)._asdict()
            for name, metric in self._scored.metrics.by_name().items()
        }
        return {"sentences": len(numbers), "scores": found}

    def remarks(self) -> Iterator[str]:
        seen = self.facts["seen"]
        sentences = len(self._hypotheses)
        none = f"the model has seen none of the {sentences:,} pairs in training"
        yield from describe_seen(seen, sentences, "the model") or [none]
        if (rest := seen["rest"]) is not None:
            shown = ", ".join(
                f"{METRICS[name].short or METRICS[name].label} {format_score(score)}"
                for name, score in rest["scores"].items()
            )
            yield f"of the other {rest['sentences']:,}: {shown}"


def format_score(score: Mapping[str, Any]) -> str:
    """Format a score from the JSON report, with half the width of its interval if it has one."""
    half = score["half_width"]
    return f"{score['value']:.2f}" + ("" if half is None else f" ± {half:.2f}")
