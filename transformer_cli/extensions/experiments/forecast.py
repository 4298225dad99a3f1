"""What the runs of a sweep take: each point's training is tried by a dry run of its command."""

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from transformer_cli.base import registry
from transformer_cli.base.errors import ConfigError, RunError, UsageError, duration, size
from transformer_cli.base.files import read_small
from transformer_cli.base.messages import bar, log
from transformer_cli.cli.display import align_columns
from transformer_cli.extensions.experiments.child import ERROR, Command, run_command
from transformer_cli.extensions.experiments.sweep import Run, SweepPlan


def preview_sweep(plan: SweepPlan) -> Iterator[str]:
    """Yield the lines of a table of what the runs that are left take, and the sums.

    Raises:
        UsageError: no forecast of trainings is installed.
    """
    if registry.find("preview", "forecast") is None:
        raise UsageError(registry.describe_missing("preview of a training", "forecast"))
    num_runs = plan.sweep.num_points * len(plan.seeds)
    left: dict[str, float]
    if plan.sweep.space is None:
        plan.check_trained_alike()
        undone = (run for run in plan.runs() if not plan.directory.seems_done(run.job))
        left = dict(Counter(run.point.name for run in undone))
    else:  # a search, of which nothing is begun here: points that stand for those to come
        samples = plan.sweep.samples
        num_left = max(0, num_runs - plan.directory.count_ended())
        left = {point.name: num_left / len(samples) for point in samples if num_left}
        plan = replace(plan, sweep=replace(plan.sweep, points=samples, space=None))
    num_left = round(sum(left.values()))
    yield f"{num_runs - num_left} of {num_runs} runs have ended"
    if num_left:
        yield from _format_forecast(left, _try_points(plan, left), plan.num_jobs)


def _try_points(plan: SweepPlan, points: Collection[str]) -> dict[str, Any]:
    """Return what a dry run says of the first run of each point that is not done."""
    first: dict[str, Run] = {}
    for run in plan.runs():
        if run.point.name in points and not plan.directory.seems_done(run.job):
            first.setdefault(run.point.name, run)
    with (
        tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
        bar(len(first), "forecast", " points") as shown,
    ):
        trials = _Trials(Path(directory))
        tried = {}
        for point, run in first.items():
            tried[point] = trials.dry_run(run)
            shown.update()
    return tried


def _format_forecast(
    left: Mapping[str, float], tried: Mapping[str, Any], num_jobs: int
) -> Iterator[str]:
    rows = [["point", "runs", "time of each", "disk of each"]]
    seconds = disk = 0.0
    unknown = []
    for point, run in tried.items():
        time_of_each = "?"
        if run["seconds"] is None:
            unknown.append(point)
        else:
            time_of_each = duration(run["seconds"] + run["start_seconds"])
            seconds += (run["seconds"] + run["start_seconds"]) * left[point] / num_jobs
        rows.append([point, f"{left[point]:.3g}", time_of_each, size(run["disk"])])
        disk += run["disk"] * left[point]
    memory = num_jobs * max(run["memory"] or 0 for run in tried.values())
    yield from ["", *align_columns(rows), ""]
    yield (
        f"{sum(left.values()):.0f} runs, {num_jobs} at a time: about {duration(seconds)} for the "
        f"trainings; {size(round(disk))} of disk for checkpoints, at least {size(memory)} of memory"
    )
    if unknown:
        yield f"no forecast of {', '.join(unknown)}: a step does not fit into memory"


@dataclass
class _Trials:
    """Dry runs of trainings, in a temporary directory that they share prepared data in.

    Each runs in its own process, so that none sees memory that an earlier one has used.
    """

    directory: Path
    _said: set[str] = field(default_factory=set)  # messages, each of which is logged once

    def dry_run(self, run: Run) -> dict[str, Any]:
        """Return what ``train --dry-run --json`` says of the rest of a run."""
        place = run.directory.path
        if not run.directory.config.is_file():
            place = self.directory / run.data.name
            if not place.is_dir():
                self._run([*run.data.command, "--run-dir", str(place)])
        # The last of two --run-dir counts.
        said = self._run([*run.job.command, "--run-dir", str(place), "--dry-run", "--json"])
        tried: dict[str, Any] = json.loads(said)
        return tried

    def _run(self, command: Sequence[str]) -> bytes:
        """Run a command; return its output."""
        stop, owner, stdout, said = (self.directory / n for n in ("stop", "owner", "out", "log"))
        said.unlink(missing_ok=True)
        ended = run_command(Command(command, Path.cwd(), stop, owner, stdout, said))
        for line in read_small(said).decode(errors="replace").splitlines():
            if line and line not in self._said and not line.startswith(ERROR):
                self._said.add(line)
                log(line)
        if ended.code:
            raise (ConfigError if ended.code == 2 else RunError)(ended.message)
        return read_small(stdout)
