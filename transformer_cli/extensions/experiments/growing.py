"""Grow a run: adapt its model to new text in a new run, and measure how BLEU changes.

The adaptation is an ordinary training, on the new text and on some of the old training text. The
new run contains its config and this old text, so you can inspect both and repeat the training.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from transformer_cli.base.errors import UsageError
from transformer_cli.base.files import read_small
from transformer_cli.base.messages import bar, log, show_progress
from transformer_cli.base.text_files import write_text
from transformer_cli.config.schema import Config
from transformer_cli.data.corpus import ParallelFiles
from transformer_cli.data.kinds import check_has_text, load_split
from transformer_cli.evaluation.best_checkpoint import bleu_of, metrics_of_runs
from transformer_cli.extensions.constraints.settings import find_terms
from transformer_cli.extensions.corpora.mixing import MixedStore, TrainingMix
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.corpora.prepared import open_writer
from transformer_cli.extensions.corpora.settings import SourceConfig
from transformer_cli.extensions.experiments.job import compose_config
from transformer_cli.extensions.experiments.significance import paired_bootstrap
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.inference.translator import Watcher
from transformer_cli.runs.checkpoint import find_checkpoint, list_checkpoints
from transformer_cli.runs.directory import RunDirectory, lock_run, write_mark
from transformer_cli.training.preparation import PreparedData, open_prepared_data

CONFIG, RECORD, REPLAY = "growth.yaml", "growth.json", "replay"
"""Names in a grown run: its config, the record of its scores, and the directory of old text."""
_HELD_OUT = 20  # one in this many pairs of the new text is held out
_FEWEST, _MOST = 50, 500  # limits on the held-out pairs, which are never more than half
_TOO_FEW = 20
# docs/results.md, "Growing", compares other values.
_SHARE = 0.25
_BATCH_TOKENS = 1024  # gives many small steps on a short text
_EPOCHS = 10
_TRAINING: dict[str, Any] = {
    "epochs": _EPOCHS,
    "max_steps": None,
    "accumulate": 1,
    "schedule": {"kind": "linear", "peak": 3e-4, "warmup": 10},
    "ema_decay": None,
    "init_share": 0.5,
    # Validate only at the end, so that the text that judges the run does not choose its checkpoint.
    "validate_every": 2**31 - 1,
}


@dataclass(frozen=True)
class ScoreChange:
    """The BLEU scores of the old run and of the new run on one text."""

    before: float
    after: float
    half_width: float | None  # of the 95 % interval of ``after``
    p_value: float | None  # see ``TestedScore``
    pairs: int

    def __str__(self) -> str:
        width = "" if self.half_width is None else f" ± {self.half_width:.2f}"
        return f"{self.before:.2f} → {self.after:.2f}{width} BLEU on {self.pairs:,} pairs"


@dataclass(frozen=True)
class Growth:
    """The growing of a run: the old run, the new run, and the files of new text."""

    old: RunDirectory
    new: RunDirectory
    added: Sequence[Path]

    def write(self) -> Path:
        """Write the new run's config and the old text that it replays; return the config's path.

        Raises:
            UsageError: a new file has an unknown format, the new text is too short, or the new run
            has different text. ConfigError, CorpusError, RunError: a run or text is damaged.
        """
        self.old.check_not_exported()
        config = self.old.load_config()
        check_has_text(config.data, self.old.config)
        find_checkpoint(self.old.checkpoints, "best")
        sources = [source_of_file(path) for path in self.added]
        pairs = 0
        for source in sources:
            reader = open_source(source, config.data.src_lang, config.data.tgt_lang)
            pairs += sum(1 for _ in show_progress(reader.pairs(), source.name, " pairs"))
        if pairs < _TOO_FEW:
            raise UsageError(f"--add: {pairs} pairs; give at least {_TOO_FEW} to measure the gain")
        old = open_prepared_data(config, self.old)
        replayed = _draw_replay(old, math.ceil(_EPOCHS * pairs * _SHARE / (1 - _SHARE)))
        text = self._compose(config, sources, pairs, list(replayed))
        path = self.new.path / CONFIG
        with lock_run(self.new):
            if path.is_file() and read_small(path) == text.encode():
                return path
            if list_checkpoints(self.new.checkpoints):
                raise UsageError(
                    f"{self.new.path}: already exists with different text; grow it with --from "
                    f"{self.new.path}, or choose another --run-dir"
                )
            write_mark(self.new.path)
            _write_replay(old, replayed, self._replay_files)
            write_text(path, text)
        return path

    def _replay_files(self, number: int) -> ParallelFiles:
        stem = self.new.path.absolute() / REPLAY / str(number)
        return ParallelFiles(stem.with_suffix(".src"), stem.with_suffix(".tgt"))

    def _compose(
        self, config: Config, sources: list[SourceConfig], pairs: int, tags: list[str | None]
    ) -> str:
        """Return the YAML of the new run's config, which changes settings of the old config."""
        replayed = [
            SourceConfig(src=files.src, tgt=files.tgt, tag=tag)
            for files, tag in zip(map(self._replay_files, range(len(tags))), tags, strict=True)
        ]
        data = {
            "kind": "corpus",
            "src_lang": config.data.src_lang,
            "tgt_lang": config.data.tgt_lang,
            "sources": sources,
            "filters": ["blank", "duplicates"],
            "split": {"val": min(max(pairs // _HELD_OUT, _FEWEST), _MOST, pairs // 2), "test": 0},
            "val": None,
            "terms": find_terms(config.data),
            "replay": {"share": _SHARE, "sources": replayed},
        }
        batch_tokens = min(_BATCH_TOKENS, config.training.batch_tokens)
        settings = {
            "base": self.old.config.absolute(),
            "init": self.old.path.absolute(),
            "data": data,
            "training": _TRAINING | {"batch_tokens": batch_tokens},
        }
        return compose_config("train --from", self.new.path / CONFIG, settings)

    def judge(self, compute: ComputeOptions) -> tuple[ScoreChange, ScoreChange]:
        """Return how BLEU changed on held-out new text and on the old validation text."""
        runs = (self.old, self.new)
        config = self.old.load_config()
        metric = metrics_of_runs(config, runs, log).by_name()[bleu_of(config)]
        found = []
        for owner in (self.new, self.old):
            text = load_split(owner.load_config().data, "val", owner.text_place)
            with bar(None, "judging", " sentences") as shown:
                systems = [
                    load_translator(run, "best", compute).translate(text.src, Watcher(shown.update))
                    for run in runs
                ]
            before, after = paired_bootstrap(systems, text.tgt, metric)
            found.append(
                ScoreChange(
                    before.value, after.value, after.half_width, after.p_value, pairs=len(text)
                )
            )
        gained, lost = found
        return gained, lost

    def settle(self, gained: ScoreChange, lost: ScoreChange, max_loss: float) -> Path | None:
        """Record whether the new run is accepted; if not, rename it and return the new path."""
        is_better = gained.after > gained.before and lost.before - lost.after < max_loss
        record = {"old": self.old.path.absolute().as_posix(), "max_loss": max_loss}
        texts = {"new_text": asdict(gained), "old_text": asdict(lost), "taken_over": is_better}
        path = self.new.path if self.new.path.name.strip(".") else self.new.path.resolve()
        write_text(path / RECORD, json.dumps(record | texts, indent=1) + "\n")
        if is_better:
            return None
        names = (f"{path.name}.rejected{f'-{n}' if n > 1 else ''}" for n in count(1))
        rejected = next(to for name in names if not (to := path.with_name(name)).exists())
        path.rename(rejected)
        return rejected


def next_run(old: Path) -> Path:
    """Return the path of the run that follows ``old`` in a chain: runs/a, runs/a+1, runs/a+2..."""
    path = old if old.name.strip(".") else old.resolve()
    name, _, number = path.name.rpartition("+")
    is_grown = name and number.isdecimal()
    return path.with_name(f"{name}+{int(number) + 1}" if is_grown else f"{path.name}+1")


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
    old: PreparedData,
    replayed: Mapping[str | None, np.ndarray],
    files: Callable[[int], ParallelFiles],
) -> None:
    files(0).src.parent.mkdir(exist_ok=True)
    owners = {
        place: number for number, own in enumerate(replayed.values()) for place in own.tolist()
    }
    with ExitStack() as stack:
        writers = [stack.enter_context(open_writer(files(n))) for n in range(len(replayed))]
        for place, pair in enumerate(old.texts.train.pairs()):
            if (number := owners.get(place)) is not None:
                writers[number](*pair)
