"""``transformer-cli sweep``."""

from pathlib import Path
from typing import Annotated

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import say

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="YAML file: base, a configuration; seeds, a number; grid, values of settings.",
        show_default=False,
    ),
]
SweepDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Directory of the sweep.  [default: sweeps/FILE's name]"),
]
Jobs = Annotated[
    int, typer.Option(metavar="N", min=1, max=1000, help="Runs that are trained side by side.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print how many runs, how long and how much disk, then exit."),
]


def sweep(
    file: File,
    sweep_dir: SweepDir = None,
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Train many variations of a configuration, each with several seeds, and compare them.

    The same command goes on where an earlier one was stopped or killed. Started twice on one
    machine, it divides the runs among both. Without --threads, each run has its share of the cores.

    \b
    Example:
      transformer-cli sweep configs/sweeps/copy.yaml --jobs 2
    """
    from transformer_cli.jobs.sweep_file import load_sweep

    loaded = load_sweep(file)
    path = sweep_dir or Path("sweeps") / file.stem
    options.check_name(path, "--sweep-dir")

    from transformer_cli.cli.experiments import SweepRequest, preview_sweep, run_sweep
    from transformer_cli.jobs.sweep import SweepDirectory

    request = SweepRequest(loaded, SweepDirectory(path), jobs, device, precision, threads)
    if dry_run:
        say(preview_sweep(request))
        return
    raise typer.Exit(run_sweep(request, say))
