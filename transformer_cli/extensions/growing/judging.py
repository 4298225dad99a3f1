"""Judge a grown run: how its scores differ from the old run's, and whether to accept it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from transformer_cli.base.files import read_json, read_small
from transformer_cli.base.messages import bar, log
from transformer_cli.base.text_files import write_text
from transformer_cli.base.writing import remove_directory
from transformer_cli.data.kinds import load_split
from transformer_cli.evaluation.best_checkpoint import bleu_of, metrics_of_runs
from transformer_cli.extensions.experiments.seed_statistics import score_sentences
from transformer_cli.extensions.growing.growth import (
    CONFIG,
    MOST_JUDGED,
    RECORD,
    Growth,
    sample_text,
)
from transformer_cli.extensions.revision.doubts import DoubtFinder, Doubts, may_copy
from transformer_cli.inference.loading import ComputeOptions, load_translator
from transformer_cli.inference.translator import Watcher
from transformer_cli.runs.directory import CONFIG as RUN_CONFIG, RunDirectory

_NORMAL_95 = 1.96  # standard deviations on either side of the mean, for 95 %


@dataclass(frozen=True)
class ScoreChange:
    """The BLEU scores of the old model and of the new one on one text."""

    before: float
    after: float
    half_width: float
    """Half of the 95 % interval of the difference, by the jackknife over sentences."""
    pairs: int

    @property
    def difference(self) -> float:
        return self.after - self.before

    def is_worse_by(self, loss: float) -> bool:
        """Return whether the score fell by more than ``loss``, and not by chance."""
        return self.difference < -loss and self.difference + self.half_width < 0

    def __str__(self) -> str:
        change = f"{self.difference:+.2f} ± {self.half_width:.2f}"
        return f"{self.before:.2f} → {self.after:.2f} BLEU ({change}, {self.pairs:,} pairs)"


@dataclass(frozen=True)
class Verdict:
    """How the scores changed on the corrections and on the old validation text."""

    new_text: ScoreChange
    old_text: ScoreChange

    def is_worse(self, max_loss: float) -> bool:
        """Return whether to reject the new model: it is significantly worse on one of the texts."""
        return self.new_text.is_worse_by(0.0) or self.old_text.is_worse_by(max_loss)


def judge(growth: Growth, compute: ComputeOptions) -> Verdict:
    """Score the models on corrections that they were not trained on, and on the old text."""
    config = growth.old.load_config()
    metric = metrics_of_runs(config, (growth.old, growth.new), log)
    old = sample_text(load_split(config.data, "val", growth.old.text_place), MOST_JUDGED)
    judged = [(each.run, each.held) for each in growth.trainings if each.held]
    jobs = [(run, [src for src, _ in held]) for run, held in judged]
    corrected = [tgt for _, held in judged for _, tgt in held]
    jobs += [(growth.new, [*old.src])]
    total = 2 * sum(len(lines) for _, lines in jobs)
    with bar(total, "judging", " sentences") as shown:

        def translate(run: RunDirectory, lines: Sequence[str]) -> list[str]:
            loaded = load_translator(run, "best", compute)
            # A translation that repeats itself would change BLEU by several points.
            doubts = Doubts(DoubtFinder(config.data.tgt_lang, may_copy(loaded)))
            translator = replace(loaded, revisers=(*loaded.revisers, doubts))
            return translator.translate(lines, Watcher(shown.update))

        before = translate(growth.old, [line for _, lines in jobs for line in lines])
        after = [line for run, lines in jobs for line in translate(run, lines)]
    name, end = bleu_of(config), len(corrected)

    def compare(part: slice, references: Sequence[str]) -> ScoreChange:
        one = metric.by_name(references=[list(references)])[name]
        (first, own), (second, others) = (score_sentences(one, x[part]) for x in (before, after))
        error = np.std(others - own, ddof=1) / len(references) ** 0.5
        return ScoreChange(first, second, float(_NORMAL_95 * error), len(references))

    return Verdict(compare(slice(end), corrected), compare(slice(end, None), old.tgt))


def settle(growth: Growth, verdict: Verdict | None, max_loss: float, accepts: bool) -> Path | None:
    """Record whether the new run is accepted; if not, rename it and return the new path.

    Without a verdict, nothing was trained.
    """
    is_accepted = accepts or verdict is None or not verdict.is_worse(max_loss)
    for each in growth.trainings[:-1]:
        if each.run.path.is_dir():
            remove_directory(each.run.path)
    record = {
        "old": growth.old.path.absolute().as_posix(),
        "corrections": len(growth.corrections.pairs),
        "left_out": {rule: len(those) for rule, those in growth.corrections.faults.items()},
        "max_loss": max_loss,
        **(asdict(verdict) if verdict else {}),
        "waiting": [] if verdict else [src for src, _ in growth.pairs],
        "taken_over": is_accepted,
    }
    path = growth.new.path if growth.new.path.name.strip(".") else growth.new.path.resolve()
    write_text(path / RECORD, json.dumps(record, indent=1) + "\n")
    if is_accepted:
        return None
    names = (f"{path.name}.rejected{f'-{n}' if n > 1 else ''}" for n in count(1))
    rejected = next(to for name in names if not (to := path.with_name(name)).exists())
    path.rename(rejected)
    for config in (rejected / name for name in (CONFIG, RUN_CONFIG)):
        if config.is_file():  # it names the run's text
            text = read_small(config).decode()
            write_text(config, text.replace(f"{path.absolute()}/", f"{rejected.absolute()}/"))
    return rejected


def read_verdict(growth: Growth) -> tuple[bool, Verdict | None]:
    """Return whether the new run was accepted before, and the verdict that it records, if any."""
    record = read_json(growth.new.path / RECORD)
    match record:
        case {"new_text": dict() as new, "old_text": dict() as old}:
            verdict = Verdict(ScoreChange(**new), ScoreChange(**old))
            return record.get("taken_over") is True, verdict
    return isinstance(record, dict) and record.get("taken_over") is True, None
