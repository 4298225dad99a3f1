"""The command ``transformer-cli runs``, which lists runs."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from transformer_cli.base.messages import bar, duration, warn
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli import options
from transformer_cli.cli.declaring import argument
from transformer_cli.cli.display import align_columns, say
from transformer_cli.config.choices import METRICS

with lazy_imports():
    from transformer_cli.extensions.report import run_list

if TYPE_CHECKING:
    from transformer_cli.extensions.report.run_list import RunSummary

Paths = Annotated[
    list[Path] | None,
    argument("PATH", "Runs, or directories to search for runs.  [default: runs]"),
]


def runs(paths: Paths = None, json: options.Json = False) -> None:
    """List runs: size, steps, best score in validation, and state.

    A run is finished, stopped (train resumes it), in use by another process, prepared (without a
    checkpoint), or damaged.

    \b
    Example:
      transformer-cli runs
      transformer-cli runs sweeps/rate --json
    """
    directories = run_list.find_runs(paths or [Path("runs")])
    shown = bar(len(directories), "reading", " runs", items=directories)
    found = list(map(run_list.summarize, shown))
    if json:
        say(json_format.dumps([asdict(each) for each in found]))
        return
    heads = ["run", "state", "languages", "parameters", "steps", "epochs", "time", "best", "disk"]
    say("\n".join(align_columns([heads, *map(_row, found)], left=3)))
    for each in found:
        if each.problem:
            warn(each.run, each.problem)


def _row(run: "RunSummary") -> list[str]:
    label = METRICS[run.metric].label if run.metric else ""
    return [
        run.run,
        run.state,
        run.languages or "-",
        "-" if run.parameters is None else f"{run.parameters:,}",
        f"{run.steps:,}" if run.steps else "-",
        f"{run.epochs:,}" if run.steps else "-",
        duration(run.seconds) if run.steps else "-",
        "-" if run.score is None else f"{label} {run.score:.2f}",
        f"{run.bytes / 1e6:,.0f} MB",
    ]
