"""``transformer-cli distill``."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_cli.cli import options
from transformer_cli.cli.display import align_columns, log, print_error, say
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.cli.train import AllowSuspectData
from transformer_cli.errors import RunError
from transformer_cli.metrics import METRICS
from transformer_cli.packages import lazy_imports
from transformer_cli.ranks import SINGLE_PROCESS

with lazy_imports():
    from transformer_cli import errors, files
    from transformer_cli.jobs import distill as plans, distill_file, forecast, runner
    from transformer_cli.model import device as devices
    from transformer_cli.runs import directory as directories
    from transformer_cli.training import execution

if TYPE_CHECKING:
    from transformer_cli.config.choices import DeviceName, PrecisionName

STOPPING = "stopping this stage; run it again to resume; once more stops at once"

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="YAML file: student, a configuration; teachers, runs or configurations.",
        show_default=False,
    ),
]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Where to.  [default: runs/distill/FILE's name]"),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the stages, with time and disk of each, then exit."),
]


def distill(
    file: File,
    dir_: Dir = None,
    dry_run: DryRun = False,
    allow_suspect_data: AllowSuspectData = False,
    device: options.Device = "auto",
    precision: options.TrainingPrecision = "auto",
    threads: options.Threads = None,
) -> None:
    """Train a student on what its teachers translate.

    Trains the teachers that are not trained yet, has them translate the student's training text and
    monolingual text, and trains and scores the student. The same command goes on where an earlier
    one was stopped or killed, and does again what depends on something that has changed.

    \b
    Example:
      transformer-cli distill configs/distill/multi30k_de_en_student.yaml
    """
    distillation = distill_file.load_distillation(file)
    path = dir_ or Path("runs") / "distill" / file.stem
    options.check_name(path, "--dir")
    directory = plans.DistillDirectory(path)
    request = DistillRequest(
        distillation, directory, device, precision, threads, allow_suspect_data
    )
    if dry_run:
        say("\n".join(preview_distillation(request)))
        return
    raise typer.Exit(run_distillation(request))


@dataclass(frozen=True)
class DistillRequest:
    """A distillation, and how this process computes it."""

    distillation: "distill_file.Distillation"
    directory: "plans.DistillDirectory"
    device: "DeviceName"
    precision: "PrecisionName"
    threads: int | None
    allow_suspect_data: bool = False

    def plan(self, training_precision: "PrecisionName") -> "plans.DistillPlan":
        """Return the jobs."""
        device = ("--device", self.device)
        return plans.DistillPlan(
            self.distillation,
            self.directory,
            (*device, "--precision", self.precision),
            (*device, "--precision", training_precision),
            () if self.threads is None else ("--threads", str(self.threads)),
            self.allow_suspect_data,
        )

    def settle_precision(self) -> "PrecisionName":
        """Return the precision of new trainings, of which each would measure for itself.

        The directory is made, and marked with it.
        """
        is_measured = self.precision == "auto" and options.open_device(self.device).type == "cpu"
        measured = self.directory.training_precision
        if is_measured and measured is None:
            devices.use_threads(self.threads)
            device = devices.choose_device("cpu")
            chosen = execution.choose_training_precision("auto", device, SINGLE_PROCESS, say=log)
            measured = "bfloat16" if str(chosen) == "torch.bfloat16" else "float32"
        teachers = sorted({each.run.path.as_posix() for each in self.distillation.teachers})
        self.directory.create(training_precision=measured, teachers=teachers)
        return measured if is_measured and measured else self.precision


def run_distillation(request: DistillRequest) -> int:
    """Run the jobs that are left, and say the scores; return the exit code."""
    directory = request.directory
    directory.check()
    failed: list[runner.Event] = []
    with directories.lock_directory(directory.path), stop_requests(STOPPING) as should_stop:
        plan = request.plan(request.settle_precision())
        plan.check()
        directory.remove_leftovers()
        with ThreadPoolExecutor(1) as executor:  # where jobs run
            running = runner.Runner(plan, executor, shows_output=True)
            for event in running.run(should_stop):
                if event is not None:
                    log(event.describe())
                    failed += [event] if event.kind == "failed" else []
    if should_stop.signal is not None:
        log("stopped; the same command goes on from there")
        return exit_code(should_stop.signal)
    if failed:
        codes = [report_failure(event, running.codes.get(event.job.name, 1)) for event in failed]
        return codes[0]
    say("\n".join(format_scores(plan)))
    return 0


def report_failure(event: "runner.Event", code: int) -> int:
    """Say what to do about a job that has failed; return the exit code."""
    name = event.job.name
    if event.message:
        print_error(f"{name}: {event.message}; the same command goes on from there")
        return 1
    # Its command has said why.
    advice = "once that is mended, the same command goes on from there"
    if event.job.text is not None:
        output = event.job.outputs()[0]
        partial = output.with_name(f"{output.name}.partial")
        if code == 2 and partial.exists():  # perhaps it is of another engine or device
            advice += f"; if {partial.as_posix()} cannot be gone on with, delete it"
    log(f"{name}: failed; {advice}")
    return code


def format_scores(plan: "plans.DistillPlan") -> list[str]:
    """Return the lines of a table of all models' scores on the validation text."""
    scores = {name: _read_scores(plan.directory.scores(name)) for name in plan.models()}
    # Where the script has no case, none has lowercased BLEU.
    measured = [
        name for name in METRICS if any(name in model["scores"] for model in scores.values())
    ]
    rows = [["model", "search", *(METRICS[metric].label for metric in measured)]]
    for name, runs in plan.models().items():
        beam_size = scores[name]["beam_size"]
        search = "greedy" if beam_size == 1 else f"beam {beam_size}"
        model = "ensemble" if len(runs) > 1 else runs[0].path.as_posix()
        cells = (_format_score(scores[name]["scores"].get(metric)) for metric in measured)
        rows.append([model, search, *cells])
    return [f"val: {scores['student']['sentences']:,} sentences", "", *align_columns(rows)]


def _read_scores(path: Path) -> dict[str, Any]:
    """Return what ``evaluate --json`` has written, whose sum is that of the job's record."""
    try:
        scores: dict[str, Any] = json.loads(files.read_small(path))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: missing or damaged; delete it, and run it again") from error
    return scores


def _format_score(score: dict[str, Any] | None) -> str:
    if score is None:
        return "-"
    half = score["half_width"]
    return f"{score['value']:.2f}" + ("" if half is None else f" ± {half:.2f}")


def preview_distillation(request: DistillRequest) -> Iterator[str]:
    """Yield the lines of a table of the jobs, and what those that are left take."""
    request.directory.check()
    plan = request.plan(request.directory.training_precision or request.precision)
    plan.check()
    forecasts = forecast.DistillForecaster(plan, log).forecast()
    rows = [["stage", "", "lines", "time", "disk"]]
    for each in forecasts:
        lines = "" if each.lines is None else f"{each.lines:,}"
        taken = "unknown" if each.seconds is None else errors.duration(each.seconds)
        if each.is_done or each.seconds == 0.0:
            taken = ""
        disk = errors.size(each.disk) if each.disk else ""
        rows.append([each.name, "done" if each.is_done else "to do", lines, taken, disk])
    yield from align_columns(rows)
    left = [each for each in forecasts if not each.is_done]
    known = sum(each.seconds or 0.0 for each in left)
    needed = sum(each.disk for each in left)
    unknown = sum(each.seconds is None for each in left)
    besides = f", and {unknown} of unknown time" if unknown else ""
    yield ""
    total = (
        f"about {errors.duration(known)}{besides}; {errors.size(needed)} of disk"
        if left
        else "nothing"
    )
    yield f"{len(left)} of {len(forecasts)} stages left: {total}"
