"""``transformer-cli sweep``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_cli.child import PROGRAM
from transformer_cli.cli import options
from transformer_cli.cli.display import say
from transformer_cli.cli.process import exit_code
from transformer_cli.errors import UsageError

if TYPE_CHECKING:
    from transformer_cli.sweeps.directory import SweepDirectory

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


Slurm = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=1000, help="Submit N workers to Slurm, then exit."),
]
SlurmOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm-option",
        metavar="NAME=VALUE",
        help="Option of sbatch, as in time=8:00:00; repeatable.",
    ),
]


def sweep(
    file: File,
    sweep_dir: SweepDir = None,
    jobs: Jobs = 1,
    dry_run: DryRun = False,
    slurm: Slurm = None,
    slurm_option: SlurmOptions = None,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
    version: options.Version = False,
) -> None:
    """Train many variations of a configuration, each with several seeds, and compare them.

    The same command goes on where an earlier one was stopped or killed. Started on several
    machines that share the directory, it divides the runs among them. Without --threads, each run
    has its share of the cores.

    \b
    Example:
      transformer-cli sweep configs/sweeps/copy.yaml --jobs 2
    """
    from transformer_cli.sweeps.directory import SweepDirectory
    from transformer_cli.sweeps.sweep_file import load_sweep

    loaded = load_sweep(file)
    path = sweep_dir or Path("sweeps") / file.stem
    options.check_name(path, "--sweep-dir")
    directory = SweepDirectory(path)

    if slurm_option and slurm is None:
        raise UsageError("--slurm-option: is for --slurm N, which is missing; add it")
    if slurm is not None and not dry_run:
        command = _worker_command(file, path, jobs, device, precision, threads)
        say("\n".join(_submit(command, directory, slurm, slurm_option or [])))
        return

    from transformer_cli.cli.sweep_job import SweepJob, preview_sweep, run_sweep

    job = SweepJob(loaded, directory, jobs, device, precision, threads)
    if dry_run:
        say(preview_sweep(job))
        return
    outcome = run_sweep(job, say)
    if outcome.signal is not None:
        raise typer.Exit(exit_code(outcome.signal))
    if outcome.failed:
        raise typer.Exit(1)


def _worker_command(
    file: Path, sweep_dir: Path, jobs: int, device: str, precision: str, threads: int | None
) -> list[str]:
    """Return the command line of a worker on another machine."""
    command = [*PROGRAM, "sweep", str(file)]
    command += ["--sweep-dir", str(sweep_dir), "--jobs", str(jobs)]
    command += ["--device", device, "--precision", precision]
    return command if threads is None else [*command, "--threads", str(threads)]


def _submit(
    command: list[str], directory: "SweepDirectory", workers: int, given: list[str]
) -> list[str]:
    from transformer_cli.sweeps.slurm import submit_workers

    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--slurm-option {each}: expected NAME=VALUE, as in time=8:00:00")
        found[name.removeprefix("--")] = value
    directory.create()
    with options.prefix_errors("--"):
        return submit_workers(command, directory.path, workers, found)
