"""Grow a run: adapt its model to corrections in a new run, which also recalls the corrections.

The adaptation is an ordinary training, on the corrections and on some of the old training text. The
new run contains its configs and all this text, so you can inspect and repeat the training.
"""

import math
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_cli.base import registry
from transformer_cli.base.errors import MissingExtraError, UsageError
from transformer_cli.base.files import read_json, read_small
from transformer_cli.base.messages import show_progress
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import whole_directory
from transformer_cli.config.data_schema import DataSection
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelFiles, ParallelText
from transformer_cli.data.kinds import check_has_text, load_split
from transformer_cli.extensions.checks import rules
from transformer_cli.extensions.corpora.mixing import MixedStore, TrainingMix
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.corpora.prepared import open_writer
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.experiments.job import compose_config
from transformer_cli.extensions.experiments.sweep import link_or_copy
from transformer_cli.extensions.growing.memory import FILE, fold, read_memory, write_memory
from transformer_cli.extensions.revision.doubts import DoubtFinder
from transformer_cli.extensions.revision.foreign_scripts import are_close
from transformer_cli.runs.checkpoint import find_checkpoint
from transformer_cli.runs.directory import (
    LOCK,
    LOCKED,
    UNLOCKED,
    RunDirectory,
    check_unlocked,
    lock_run,
    write_mark,
)
from transformer_cli.training.preparation import PreparedData, open_prepared_data

CONFIG, RECORD, TEXT = "growth.yaml", "growth.json", "growth"
"""Names in a grown run: its config, the record of its scores, and the directory of its text."""
FEWEST_TO_TRAIN = 20
"""With fewer corrections, the new run has the old model."""
_MOST_HALVED = 2_000  # with more corrections, one in twenty is held out instead
_HELD_OUT, _MOST_HELD_OUT = 20, 500
MOST_JUDGED = 1_000  # pairs of the old validation text
# docs/results.md, "Growing", compares other values.
_SHARE = 0.45
_BATCH_TOKENS = 1024  # gives many small steps on a short text
_EPOCHS = 10
_TRAINING: dict[str, Any] = {
    "epochs": _EPOCHS,
    "max_steps": None,
    "accumulate": 1,
    "schedule": {"kind": "linear", "peak": 3e-4, "warmup": 10},
    "ema_decay": None,
    "init_share": 0.3,
    # Validate only at the end, so that the text that judges the run does not choose its checkpoint.
    "validate_every": 2**31 - 1,
}

_RULES = ("encoding", "script", "markup")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class CorrectedPairs:
    """Pairs of a source and its translation, from files that the user gave.

    Attributes:
        pairs: the translations, keyed by source; of several translations of one source, the last.
        faults: for each rule that a pair breaks, the sources of those pairs.
        total: the number of pairs in the files.
    """

    pairs: dict[str, str]
    faults: dict[str, list[str]]
    total: int

    def describe_faults(self) -> Iterator[str]:
        """Yield a message for each rule that pairs break, with an example."""
        for rule, sources in self.faults.items():
            yield f"{len(sources):,} of {self.total:,} pairs left out: {rule}, e.g. {sources[0]!r}"


class Training(NamedTuple):
    """A training on corrections, and the corrections that judge its model; there may be none."""

    run: RunDirectory
    text: Path  # the directory of its text
    config: Path
    train: Pairs
    held: Pairs


@dataclass(frozen=True)
class Growth:
    """The growing of a run: the old run, the new run, and the corrections."""

    old: RunDirectory
    new: RunDirectory
    corrections: CorrectedPairs

    @classmethod
    def plan(cls, old: RunDirectory, new: RunDirectory, files: list[Path]) -> "Growth":
        """Read the corrections in ``files``, without writing anything.

        Raises:
            UsageError: a file has an unknown format, or no good corrections. ConfigError,
            CorpusError, RunError: a run or text is damaged.
        """
        old.check_not_exported()
        config = old.load_config()
        check_has_text(config.data, old.config)
        find_checkpoint(old.checkpoints, "best")
        return cls(old, new, read_corrections(files, config.data))

    @property
    def memory(self) -> dict[str, str]:
        """All corrections that the new run recalls: those of the old run, and the new ones."""
        return read_memory(self.old.path / FILE) | self.corrections.pairs

    @property
    def pairs(self) -> Pairs:
        """The corrections to train on: those that the old run has not learned."""
        known = read_memory(self.old.path / FILE)
        record = read_json(self.old.path / RECORD)
        waiting = record.get("waiting") if isinstance(record, dict) else None
        return [
            (src, tgt)
            for src, tgt in self.memory.items()
            if known.get(src) != tgt or (isinstance(waiting, list) and src in waiting)
        ]

    @property
    def trainings(self) -> list[Training]:
        """The trainings in their order; the last one is the new run's.

        Each half of the corrections judges a model that was trained on the other half. Very many
        corrections are not halved; some of them are held out.
        """
        pairs = self.pairs
        if len(pairs) < FEWEST_TO_TRAIN:
            return []
        shuffled = random.Random(1).sample(pairs, len(pairs))
        if len(pairs) > _MOST_HALVED:
            count = min(len(pairs) // _HELD_OUT, _MOST_HELD_OUT)
            return [self._training(None, shuffled[count:], shuffled[:count])]
        halves = shuffled[::2], shuffled[1::2]
        return [
            self._training("1", *halves),
            self._training("2", *reversed(halves)),
            self._training(None, pairs, []),
        ]

    def _training(self, name: str | None, train: Pairs, held: Pairs) -> Training:
        text = self.new.path / TEXT
        if name is None:
            return Training(self.new, text, self.new.path / CONFIG, train, held)
        run = RunDirectory(text / name)
        return Training(run, run.path / TEXT, run.path / CONFIG, train, held)

    def check_new(self) -> None:
        """Raise UsageError if the new run exists and has other corrections."""
        self.new.check_is_run_or_empty()
        check_unlocked(self.old)
        path = self.new.path
        if path.resolve() == self.old.path.resolve():
            raise UsageError(f"--run-dir {path}: is the run to start from; choose another one")
        is_trained = self.new.has_checkpoints
        memory = read_memory(path / FILE)
        if (is_trained or memory) and memory != self.memory:
            advice = f"grow it with --from {path}" if is_trained else "delete it"
            raise UsageError(
                f"{path}: already exists with different text; {advice}, or choose another --run-dir"
            )
        if not self.trainings and path.is_dir() and path.samefile("."):
            raise UsageError(f"--run-dir {path}: cannot be replaced; give a new directory")

    def write(self) -> None:
        """Write the new run's corrections, and the configs and the text of all trainings.

        If the corrections are too few for training, the new run is a copy of the old one.
        """
        if not (trainings := self.trainings):
            if not self.new.has_checkpoints:
                self._copy()
            return
        config = self.old.load_config()
        old = open_prepared_data(config, self.old)
        most = max(len(each.train) for each in trainings)
        replayed = _draw_replay(old, math.ceil(_EPOCHS * most * _SHARE / (1 - _SHARE)))
        val = sample_text(load_split(config.data, "val", self.old.text_place), MOST_JUDGED)
        with lock_run(self.new):
            write_mark(self.new.path)
            text = self.new.path / TEXT
            text.mkdir(exist_ok=True)
            if not all(each.config.is_file() for each in trainings):
                _write_replay(old, replayed, text)
            for each in trainings:
                each.text.mkdir(parents=True, exist_ok=True)
                _write_pairs(each.train, each.text / "train")
                tag = None
                if each.run is self.new:
                    tag = _write_largest(val, each.text / "val")
                else:
                    _write_pairs(each.held, each.text / "val")
                composed = self._compose(config, each, tag, list(replayed))
                if not (each.config.is_file() and read_small(each.config) == composed.encode()):
                    write_mark(each.run.path)
                    write_text(each.config, composed)
            write_memory(self.new.path / FILE, self.memory)

    def _copy(self) -> None:
        """Copy the old run to the new one; large files are shared, because nothing changes them."""
        # Files with the fact "stays" belong to the old run alone.
        files = registry.entries("run file").items()
        own = {LOCK, CONFIG, RECORD, TEXT, FILE, *(n for n, e in files if "stays" in e.facts)}
        self.new.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_directory(self.new.path) as directory:
            for name in (name for name in (*LOCKED, *UNLOCKED) if name not in own):
                path = self.old.path / name
                if path.is_dir():
                    shutil.copytree(path, directory / name, copy_function=link_or_copy)
                elif path.is_file():
                    shutil.copy2(path, directory / name)
            write_memory(directory / FILE, self.memory)

    def _compose(
        self, config: Config, training: Training, tag: str | None, replayed: list[str | None]
    ) -> str:
        """Return the YAML of a training's config, which changes settings of the old config."""
        text = self.new.path / TEXT
        sources = [_source(text / f"replay-{n}", tag) for n, tag in enumerate(replayed)]
        data = {
            "kind": "corpus",
            "src_lang": config.data.src_lang,
            "tgt_lang": config.data.tgt_lang,
            "sources": [_source(training.text / "train", None)],
            "filters": ["blank"],
            "split": None,
            "val": _source(training.text / "val", tag),
            "replay": {"share": _SHARE, "sources": sources},
        }
        batch_tokens = min(_BATCH_TOKENS, config.training.batch_tokens)
        unlimited = {"max_minutes": None} if hasattr(config.training, "max_minutes") else {}
        settings = {
            "base": self.old.config.absolute(),
            "init": self.old.path.absolute(),
            "data": data,
            "training": {**_TRAINING, "batch_tokens": batch_tokens, **unlimited},
        }
        return compose_config("train --from", training.config, settings)


def next_run(old: Path) -> Path:
    """Return the path of the run that follows ``old`` in a chain: runs/a, runs/a+1, runs/a+2..."""
    path = old if old.name.strip(".") else old.resolve()
    name, _, number = path.name.rpartition("+")
    is_grown = name and number.isdecimal()
    return path.with_name(f"{name}+{int(number) + 1}" if is_grown else f"{path.name}+1")


# --- corrections ----------------------------------------------------------------------------------


def read_corrections(files: Sequence[Path], data: DataSection) -> CorrectedPairs:
    """Read all pairs in TMX, PO and TSV files, and leave out faulty ones.

    Raises:
        UsageError: a file has an unknown format, or no pair is left. CorpusError: it is damaged.
    """
    sources = [source_of_file(path) for path in files]
    pairs: list[tuple[str, str]] = []
    for source in sources:
        reader = open_source(source, data.src_lang, data.tgt_lang)
        read = show_progress(reader.pairs(), source.name, " pairs")
        pairs += ((fold(src), " ".join(tgt.split())) for src, tgt in read)
    kept: dict[str, str] = {}
    faults: dict[str, list[str]] = {}
    for (src, tgt), fault in zip(pairs, find_faults(pairs, data), strict=True):
        if fault:
            faults.setdefault(fault, []).append(src)
        else:
            kept[src] = tgt
    corrections = CorrectedPairs(kept, faults, len(pairs))
    if not kept:
        said = "; ".join(corrections.describe_faults()) or "the files have no pairs"
        raise UsageError(f"--add: no corrections to learn from: {said}")
    return corrections


def find_faults(pairs: rules.Pairs, data: DataSection) -> list[str]:
    """Return for each pair the first rule that it breaks, or '' if it breaks none."""
    settings = rules.FilterSettings.of(data)
    filters = rules.build_filters(_RULES, settings)
    with suppress(MissingExtraError):
        filters += rules.build_filters(["language"], settings)[1:]  # the first one is ``blank``
    # A wrong translation by a person looks like a wrong one by a model.
    finder = DoubtFinder(data.tgt_lang, may_copy=are_close(data.src_lang, data.tgt_lang))

    def find(src: str, tgt: str) -> str:
        for rule in filters:
            assert isinstance(rule, rules.PairFilter)
            if rule.rejects(src, tgt):
                return rule.summary
        doubt = finder.find(src, tgt)
        return f"the translation is doubtful: {doubt}" if doubt else ""

    return [find(*pair) for pair in pairs]


# --- text -----------------------------------------------------------------------------------------


def _source(stem: Path, tag: str | None) -> SourceConfig:
    files = _files(stem.absolute())
    return SourceConfig(src=files.src, tgt=files.tgt, tag=tag)


def _files(stem: Path) -> ParallelFiles:
    return ParallelFiles(stem.with_name(f"{stem.name}.src"), stem.with_name(f"{stem.name}.tgt"))


def _write_pairs(pairs: Iterable[tuple[str, str]], stem: Path) -> None:
    with open_writer(_files(stem)) as write:
        for pair in pairs:
            write(*pair)


def sample_text(text: ParallelText, most: int) -> ParallelText:
    """Return at most so many pairs of a text, at equal distances."""
    places = [each * len(text) // min(len(text), most) for each in range(min(len(text), most))]
    return ParallelText([text.src[n] for n in places], [text.tgt[n] for n in places])


def _write_largest(text: ParallelText, stem: Path) -> str | None:
    """Write the pairs with the most frequent tag, and return the tag."""
    tags = [getattr(line, "tag", None) for line in text.src]
    tag = max(dict.fromkeys(tags), key=tags.count)
    pairs = zip(text.src, text.tgt, tags, strict=True)
    _write_pairs(((src, tgt) for src, tgt, own in pairs if own == tag), stem)
    return tag


def _draw_replay(old: PreparedData, wanted: int) -> Mapping[str | None, np.ndarray]:
    """Return indices of old training pairs, keyed by source tag, in the old run's proportions."""
    mix = TrainingMix((len(old.texts.train),), (1.0,), (None,))
    if isinstance(old.pairs, MixedStore):
        mix = old.pairs.mix
    tags = old.tokenizers.src.reserved_ids.get("tags", {})
    names = {number: name for name, number in tags.items()}
    drawn = np.array(mix.weights) * mix.sizes
    places: dict[str | None, list[np.ndarray]] = {}
    start = 0
    for size, share, tag in zip(mix.sizes, drawn / drawn.sum(), mix.tags, strict=True):
        count = min(size, math.ceil(wanted * share))
        chosen = np.arange(count) * size // max(count, 1)
        if len(chosen):
            places.setdefault(None if tag is None else names[tag], []).append(start + chosen)
        start += size
    return {tag: np.concatenate(own) for tag, own in places.items()}


def _write_replay(
    old: PreparedData, replayed: Mapping[str | None, np.ndarray], directory: Path
) -> None:
    writers: dict[int, Callable[[str, str], object]] = {}
    with ExitStack() as stack:
        for number, places in enumerate(replayed.values()):
            write = stack.enter_context(open_writer(_files(directory / f"replay-{number}")))
            writers |= dict.fromkeys(places.tolist(), write)
        pairs = show_progress(old.texts.train.pairs(), "choosing old text", " pairs")
        for place, pair in enumerate(pairs):
            if place in writers:
                writers[place](*pair)
