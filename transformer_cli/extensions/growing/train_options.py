"""The options of ``train --from``, which adapts a trained run to corrections, in a new run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import RunError, UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import find_ranks
from transformer_cli.cli.declaring import flag, option
from transformer_cli.cli.options import TrainExtra, TrainOptions

with lazy_imports():
    from transformer_cli.extensions.growing import growth as growths, judging
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory


@dataclass(frozen=True)
class GrowingOptions(TrainExtra):
    """The options of ``train`` that grow a run: adapt its model to corrections, in a new run.

    By default, the new run of runs/a is runs/a+1. It is rejected if its BLEU is significantly lower
    on corrections that it was not trained on, or more than ``max_loss`` lower on the old validation
    text.
    """

    heading = "Growing a run with corrections"
    from_: Annotated[
        Path | None,
        option(
            "RUN",
            "Start a new run that adapts RUN to the corrections given with --add.",
            "--from",
        ),
    ] = None
    add: Annotated[
        list[Path] | None,
        option("FILE", "With --from: file with corrections (TMX, PO or TSV); repeatable.", "--add"),
    ] = None
    max_loss: Annotated[
        float,
        option(
            "BLEU",
            "With --from: reject the new model if it loses more BLEU than this on the old text.",
            min=0.0,
        ),
    ] = 0.5
    accept: Annotated[
        bool, flag("With --from: accept the new model even if it is worse.", "--accept")
    ] = False

    def check(self, given: TrainOptions) -> None:
        if self.from_ is None:
            for name, *_ in self.given():
                raise UsageError(f"--{name.replace('_', '-')}: needs --from RUN; add it")
            if given.config is None:
                raise UsageError("CONFIG: missing; give a config, or --from RUN --add FILE")
            return
        if not self.add:
            raise UsageError("--from: needs corrections to adapt the run to; add --add FILE")
        unfit = {
            "CONFIG": given.config is not None,
            "--overwrite": given.overwrite,
            "torchrun": find_ranks().size > 1,
        }
        for name in (name for name, is_given in unfit.items() if is_given):
            raise UsageError(f"--from: cannot be used with {name}; leave one of them out")

    def around(self, train: Callable[[TrainOptions], str], given: TrainOptions) -> str:
        """Call ``train``; with --from, judge the new run, and raise RunError if it is rejected."""
        if self.from_ is None:
            return train(given)
        old = directory.RunDirectory(self.from_)
        new = directory.RunDirectory(given.run_dir or growths.next_run(self.from_))
        growth = growths.Growth.plan(old, new, self.add or [])
        for message in growth.corrections.describe_faults():
            log(message)
        growth.check_new()
        if given.dry_run:
            return _describe_plan(growth)
        is_accepted, verdict = judging.read_verdict(growth)
        if verdict is None and not is_accepted:
            growth.write()
            for number, each in enumerate(trainings := growth.trainings, start=1):
                of = f"training {number} of {len(trainings)}: on {len(each.train):,} corrections"
                log(f"{of}, judged by the other {len(each.held):,}" if each.held else of)
                log(train(replace(given, config=each.config, run_dir=each.run.path)))
            compute = loading.ComputeOptions("auto", given.device, given.precision, given.threads)
            verdict = judging.judge(growth, compute) if trainings else None
        about = _describe(growth, verdict)
        if not is_accepted:
            rejected = judging.settle(growth, verdict, self.max_loss, self.accept)
            if rejected is not None:
                raise RunError(
                    f"{new.path}: rejected, and renamed to {rejected.name}: {about} (--max-loss "
                    f"{self.max_loss:g}); with --accept, the same command trains again and "
                    "accepts the model"
                )
        return f"{new.path}: accepted: {about}"


def _describe_recall(growth: "growths.Growth") -> str:
    count = len(growth.memory)
    return f"it translates {count:,} corrected text{'s' * (count != 1)} as corrected"


def _describe(growth: "growths.Growth", verdict: "judging.Verdict | None") -> str:
    if verdict is None:
        why = f"it learns from {growths.FEWEST_TO_TRAIN} or more new corrections"
        return f"{_describe_recall(growth)}, and all others as before ({why})"
    scores = f"new text {verdict.new_text}; old text {verdict.old_text}"
    return f"{_describe_recall(growth)}; {scores}"


def _describe_plan(growth: "growths.Growth") -> str:
    start = f"would start {growth.new.path} from {growth.old.path}"
    if not (counts := [f"{len(each.train):,}" for each in growth.trainings]):
        return f"{start}; {_describe(growth, None)}"
    how = " corrections: two halves to judge, and all" if len(counts) > 1 else " corrections"
    return f"{start}; {_describe_recall(growth)}; trainings on {', '.join(counts)}{how}"
