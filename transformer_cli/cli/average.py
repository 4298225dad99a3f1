"""``transformer-cli average``."""

from pathlib import Path
from typing import Annotated

from transformer_cli.base.errors import UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import argument, option
from transformer_cli.cli.display import say

with lazy_imports():
    from transformer_cli.runs import directory, trained_model


def average(
    runs: Annotated[list[Path], argument("RUN", "Run directory of a training.", completes="run")],
    last: Annotated[
        int | None, option("N", "The newest N checkpoints of each run.  [default: all]", min=1)
    ] = None,
) -> None:
    """Average the weights of a run's newest checkpoints.

    The average is a checkpoint of the run like any other: evaluate and translate read it with
    --checkpoint average, until another is made. A run keeps as many checkpoints as
    training.keep_last says; those of a Ctrl-C, which no validation has judged, are left out. Of
    several runs, which should share their initial weights, the first gets the average.

    \b
    Example:
      transformer-cli average runs/multi30k_de_en
      transformer-cli evaluate runs/multi30k_de_en --checkpoint average
    """
    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError("average: a run is named twice; name each once")
    directories = [directory.RunDirectory(run) for run in runs]
    directories[0].load_config()
    directories[0].check_not_exported()
    with directory.lock_run(directories[0]):
        path, averaged = trained_model.average_runs(directories, last)
    for run in directories:
        for stop in trained_model.list_stops(run):
            log(f"{stop}: left out, as training was stopped there before a validation")
    say(f"{path}: the average of {', '.join(checkpoint.name for checkpoint in averaged)}")
