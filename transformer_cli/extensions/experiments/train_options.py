"""The options of ``train --from``, which adapts a trained run to new text, in a new run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import RunError, UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.base.ranks import find_ranks
from transformer_cli.cli.declaring import option
from transformer_cli.cli.options import TrainExtra, TrainOptions

with lazy_imports():
    from transformer_cli.extensions.experiments import growing
    from transformer_cli.inference import loading
    from transformer_cli.runs import directory

_MAX_LOSS = 0.5


@dataclass(frozen=True)
class GrowingOptions(TrainExtra):
    """The options of ``train`` that grow a run: adapt its model to new text, in a new run.

    By default, the new run of runs/a is runs/a+1. It is accepted only if BLEU rises on held-out new
    text and drops by less than ``max_loss`` on the old validation text.
    """

    heading = "Growing a run with new text"
    from_: Annotated[
        Path | None,
        option(
            "RUN",
            "Start a new run that adapts RUN to the text given with --add.",
            "--from",
        ),
    ] = None
    add: Annotated[
        list[Path] | None,
        option("FILE", "With --from: file with new text (TMX, PO or TSV); repeatable.", "--add"),
    ] = None
    max_loss: Annotated[
        float,
        option(
            "BLEU",
            "With --from: reject the new model if it loses more BLEU than this on the old text.",
            min=0.0,
        ),
    ] = _MAX_LOSS

    def check(self, given: TrainOptions) -> None:
        if self.from_ is None:
            if self.add or given.config is None:
                is_missing = "--add: needs --from RUN; add it"
                what = is_missing if self.add else "CONFIG: missing"
                raise UsageError(f"{what}; give a config, or --from RUN --add FILE")
            if self.max_loss != _MAX_LOSS:
                raise UsageError("--max-loss: needs --from RUN; add it")
            return
        if not self.add:
            raise UsageError("--from: needs new text to adapt the run to; add --add FILE")
        unfit = {
            "CONFIG": given.config is not None,
            "--overwrite": given.overwrite,
            "--dry-run": given.dry_run,
            "torchrun": find_ranks().size > 1,
        }
        if named := [name for name, is_given in unfit.items() if is_given]:
            raise UsageError(f"--from: cannot be used with {named[0]}; leave one of them out")

    def around(self, train: Callable[[TrainOptions], str], given: TrainOptions) -> str:
        """Call ``train``; with --from, judge the new run, and raise RunError if it is rejected."""
        if self.from_ is None:
            return train(given)
        new = given.run_dir or growing.next_run(self.from_)
        old, added = directory.RunDirectory(self.from_), self.add or []
        growth = growing.Growth(old, directory.RunDirectory(new), added)
        config = growth.write()
        log(train(replace(given, config=config, run_dir=new)))
        compute = loading.ComputeOptions("auto", given.device, given.precision, given.threads)
        gained, lost = growth.judge(compute)
        rejected = growth.settle(gained, lost, self.max_loss)
        about = f"new text {gained}; old text {lost}"
        if rejected is not None:
            raise RunError(
                f"{new}: rejected, and renamed to {rejected.name}: {about} "
                f"(--max-loss {self.max_loss:g})"
            )
        return f"{new}: accepted: {about}"
