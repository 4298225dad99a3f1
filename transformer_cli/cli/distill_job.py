"""What ``distill`` does."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from transformer_cli.cli.display import align_columns, line_bar, log, pair_bar, print_error, warn
from transformer_cli.cli.options import open_device, say_put_back
from transformer_cli.cli.signals import stop_requests
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.distill.directory import DistillDirectory
from transformer_cli.distill.distill_file import Distillation
from transformer_cli.distill.plan import DistillPlan
from transformer_cli.distill.runner import Failure, run_stages
from transformer_cli.errors import RunError
from transformer_cli.foreign_files import read_small
from transformer_cli.metrics import METRICS, Score
from transformer_cli.model.device import use_threads
from transformer_cli.ranks import SINGLE_PROCESS
from transformer_cli.runs.lock import lock_directory
from transformer_cli.training.precision import choose_training_precision
from transformer_cli.training.units import duration, size

STOPPING = "stopping this stage, from where it can be gone on with; once more stops at once"


@dataclass(frozen=True)
class DistillJob:
    """A distillation, and how this process computes it."""

    distillation: Distillation
    directory: DistillDirectory
    device: DeviceName
    precision: PrecisionName
    threads: int | None
    allow_suspect_data: bool = False

    def plan(self, training_precision: PrecisionName = "auto") -> DistillPlan:
        """Return the stages."""
        device = ("--device", self.device)
        return DistillPlan(
            self.distillation,
            self.directory,
            (*device, "--precision", self.precision),
            (*device, "--precision", training_precision),
            () if self.threads is None else ("--threads", str(self.threads)),
            self.allow_suspect_data,
        )

    def known_precision(self, device: torch.device) -> PrecisionName:
        """Return what ``--precision`` says of trainings, or has been measured to stand for."""
        if self.precision == "auto" and device.type == "cpu":
            return self.directory.training_precision or "auto"
        return self.precision

    def settle_precision(self) -> PrecisionName:
        """Return the precision of new trainings, of which each would measure for itself."""
        device = open_device(self.device)
        known = self.known_precision(device)
        if known != "auto" or device.type != "cpu":
            return known
        use_threads(self.threads)
        chosen = choose_training_precision("auto", device, SINGLE_PROCESS, say=log)
        settled: PrecisionName = "bfloat16" if chosen == torch.bfloat16 else "float32"
        self.directory.record_training_precision(settled)
        return settled


@dataclass(frozen=True)
class DistillOutcome:
    """How a distillation ended."""

    lines: list[str] = field(default_factory=list)
    """For stdout."""
    code: int = 0
    signal: int | None = None
    """The signal that stopped it before it was finished."""


def run_distillation(job: DistillJob) -> DistillOutcome:
    """Run the stages that are left, until none is or a signal comes."""
    with lock_directory(job.directory.path), stop_requests(STOPPING) as should_stop:
        job.directory.open()  # as another process may have left it just now
        job.directory.remove_leftovers()
        plan = job.plan(job.settle_precision())
        failure = run_stages(plan, should_stop, log)
        lines = [] if failure or should_stop() else format_scores(plan)
    if lines:
        return DistillOutcome(lines)
    if should_stop.signal is not None:
        log("stopped; the same command goes on from there")
        return DistillOutcome(signal=should_stop.signal)
    assert failure is not None
    return DistillOutcome(code=_tell(failure))


def _tell(failure: Failure) -> int:
    """Say what became of a stage, whose process has said why; return the exit code."""
    name, code = failure.stage.name, failure.code
    if code < 0:
        print_error(
            f"{name}: killed by signal {-code} (out of memory?); the same command goes on from "
            "there"
        )
        return 1
    advice = "once that is mended, the same command goes on from there"
    if failure.stage.kind == "translate":
        output = failure.stage.outputs()[0]
        partial = output.with_name(f"{output.name}.partial")
        if code == 2 and partial.exists():  # perhaps it is of another engine or device
            advice += f"; if {partial.as_posix()} cannot be gone on with, delete it"
    log(f"{name}: failed; {advice}")
    return code


def format_scores(plan: DistillPlan) -> list[str]:
    """Return the lines of a table of all models' scores on the validation text."""
    found = {name: _read_scores(plan.directory.scores(name)) for name in plan.models()}
    metrics = [
        metric
        for metric in METRICS.values()
        if any(metric.name in each.scores for each in found.values())
    ]
    rows = [["model", "search", *(metric.label for metric in metrics)]]
    sentences = 0
    for name, runs in plan.models().items():
        scores = found[name]
        sentences = scores.sentences
        search = "greedy" if scores.beam_size == 1 else f"beam {scores.beam_size}"
        model = "ensemble" if len(runs) > 1 else runs[0].path.as_posix()
        cells = (_score(scores.scores.get(metric.name)) for metric in metrics)
        rows.append([model, search, *cells])
    return [f"val: {sentences:,} sentences", "", *align_columns(rows)]


class _Scores(BaseModel):
    """What the table shows of a file that ``evaluate --json`` has written."""

    model_config = ConfigDict(strict=True)

    sentences: int
    beam_size: int
    scores: dict[str, Score]


def _read_scores(path: Path) -> _Scores:
    try:
        return _Scores.model_validate_json(read_small(path))
    except (OSError, ValidationError) as error:
        raise RunError(f"{path}: missing or damaged; delete it, and run it again") from error


def _score(score: Score | None) -> str:
    if score is None:
        return "-"
    half = score.half_width
    return f"{score.value:.2f}" + ("" if half is None else f" ± {half:.2f}")


def preview_distillation(job: DistillJob) -> Iterator[str]:
    """Yield the lines of a table of the stages, and what those that are left take."""
    from transformer_cli.distill.forecast import StageForecaster
    from transformer_cli.training.setup import Callbacks

    use_threads(job.threads)
    device = open_device(job.device)
    precision = choose_training_precision(
        job.known_precision(device), device, SINGLE_PROCESS, say=log
    )
    plan = job.plan()
    plan.check()
    reporters = Callbacks(line_bar, warn, pair_bar, log, say_put_back)
    forecasts = StageForecaster(plan, device, precision, reporters).forecast()
    rows = [["stage", "", "lines", "time", "disk"]]
    for each in forecasts:
        lines = "" if each.lines is None else f"{each.lines:,}"
        taken = duration(each.seconds) if each.seconds is not None else "unknown"
        if each.is_done or each.is_short:
            taken = ""
        disk = size(each.disk) if each.disk else ""
        rows.append([each.name, "done" if each.is_done else "to do", lines, taken, disk])
    yield from align_columns(rows)
    left = [each for each in forecasts if not each.is_done]
    known = sum(each.seconds or 0.0 for each in left)
    needed = sum(each.disk for each in left)
    unknown = sum(each.seconds is None and not each.is_short for each in left)
    besides = f", and {unknown} of unknown time" if unknown else ""
    yield ""
    total = f"about {duration(known)}{besides}; {size(needed)} of disk" if left else "nothing"
    yield f"{len(left)} of {len(forecasts)} stages left: {total}"
