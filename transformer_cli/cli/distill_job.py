"""What ``distill`` does."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from transformer_cli.cli.display import align_columns, complain, line_bar, log, warn
from transformer_cli.cli.options import open_device, say_put_back
from transformer_cli.cli.signals import stop_requests
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.distill.directory import DistillDirectory
from transformer_cli.distill.distill_file import Distillation
from transformer_cli.distill.plan import DistillPlan
from transformer_cli.distill.runner import Failure, run_stages
from transformer_cli.model.device import use_threads
from transformer_cli.ranks import ALONE
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

    def plan(self) -> DistillPlan:
        """Return the stages."""
        threads = () if self.threads is None else ("--threads", str(self.threads))
        binding = ("--device", self.device, "--precision", self.precision)
        return DistillPlan(self.distillation, self.directory, binding, threads)


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
        plan = job.plan()
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
        complain(
            f"{name}: killed by signal {-code} (out of memory?); the same command goes on from "
            "there"
        )
        return 1
    log(f"{name}: failed; once that is mended, the same command goes on from there")
    return code


def format_scores(plan: DistillPlan) -> list[str]:
    """Return the lines of a table of all models' scores on the validation text."""
    rows = [["model", "search", "BLEU", "BLEU lowercased", "chrF", "TER"]]
    sentences = 0
    for name, runs in plan.models().items():
        scores = json.loads(plan.directory.scores(name).read_text(encoding="utf-8"))
        sentences = scores["sentences"]
        search = "greedy" if scores["beam_size"] == 1 else f"beam {scores['beam_size']}"
        model = "ensemble" if len(runs) > 1 else runs[0].path.as_posix()
        metrics = (_score(scores, key) for key in ("bleu", "bleu_lc", "chrf", "ter"))
        rows.append([model, search, *metrics])
    return [f"val: {sentences:,} sentences", "", *align_columns(rows)]


def _score(scores: dict[str, Any], key: str) -> str:
    half = scores[f"{key}_half_width"]
    return f"{scores[key]:.2f}" + ("" if half is None else f" ± {half:.2f}")


def preview_distillation(job: DistillJob) -> Iterator[str]:
    """Yield the lines of a table of the stages, and what those that are left take."""
    from transformer_cli.distill.forecast import StageForecaster
    from transformer_cli.training.setup import Reporters

    use_threads(job.threads)
    device = open_device(job.device)
    precision = choose_training_precision(job.precision, device, ALONE, say=log)
    plan = job.plan()
    plan.check_tokenizers()
    reporters = Reporters(line_bar, warn, say_put_back)
    forecasts = list(StageForecaster(plan, device, precision, reporters).forecast())
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
