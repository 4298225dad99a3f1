"""What ``sweep`` shows while it runs."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from transformer_cli.cli.display import align_columns, log
from transformer_cli.metrics import METRICS
from transformer_cli.sweeps.plan import Plan
from transformer_cli.sweeps.status import PointStatus, best_point, read_status, seconds_left
from transformer_cli.sweeps.tasks import Task
from transformer_cli.sweeps.worker import Event
from transformer_cli.training.units import duration, size
from transformer_cli.visible import make_visible

if TYPE_CHECKING:
    from transformer_cli.sweeps.forecast import RunForecast

_REDRAW_SECONDS = 1.0


class SweepDisplay:
    """A table that is redrawn on a terminal; elsewhere a line for each event."""

    def __init__(self, plan: Plan, jobs: int) -> None:
        self.plan = plan
        self.jobs = jobs
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, event: Event | None, running: Sequence[Task]) -> None:
        """Show an event, or draw the table again."""
        if event is not None:
            self._log(event)
        if self._console.is_terminal and (
            event is not None or time.monotonic() - self._drawn > _REDRAW_SECONDS
        ):
            self._drawn = time.monotonic()
            self._live.update(self._table(running), refresh=True)

    def _log(self, event: Event) -> None:
        line = f"{event.task.name}: {event.kind}"
        if event.message:
            line += f": {event.message}"
        if event.kind == "done" and event.task.name.startswith("runs/"):
            line += f"; {self._left(read_status(self.plan))}"
        if self._console.is_terminal:
            if event.kind in ("failed", "lost", "waiting"):
                self._console.print(make_visible(line), markup=False, highlight=False)
        else:
            log(line)

    def _left(self, points: list[PointStatus]) -> str:
        runs = self.plan.num_runs
        done = sum(len(point.runs) for point in points)
        text = f"{done} of {runs} runs"
        if (best := best_point(points, self.plan.metric)) is not None:
            text += f", best so far {self.plan.describe(best.name)} {best.mean:.2f}"
        left = seconds_left(points, runs, self.jobs)
        return f"{text}, {duration(left)} left" if left else text

    def _table(self, running: Sequence[Task]) -> Group:
        points = read_status(self.plan)
        best = best_point(points, self.plan.metric)
        table = Table("point", "seeds", METRICS[self.plan.metric].label)
        for point in points:
            style = "bold" if point is best else None
            name = make_visible(self.plan.describe(point.name))
            table.add_row(name, _count(point), _score(point), style=style)
        names = ", ".join(task.name for task in running)
        head = f"{self.plan.directory.path}: {self._left(points)}\nrunning: {names or 'nothing'}"
        return Group(Text(make_visible(head)), table)


def format_forecast(
    forecasts: Sequence["RunForecast"], left: Mapping[str, float], jobs: int, num_runs: int
) -> list[str]:
    """Return the lines of a table of what the runs that are left take, and the sums."""
    rows = [["point", "runs", "time of each", "disk of each"]]
    for each in forecasts:
        time_of_each = "?" if each.seconds is None else duration(each.seconds)
        rows.append(
            [each.point.name, f"{left[each.point.name]:.3g}", time_of_each, size(each.disk)]
        )
    num_left = round(sum(left.values()))
    seconds = sum((each.seconds or 0.0) * left[each.point.name] for each in forecasts) / jobs
    disk = round(sum(each.disk * left[each.point.name] for each in forecasts))
    memory = jobs * max((each.memory or 0 for each in forecasts), default=0)
    unknown = [each.point.name for each in forecasts if each.seconds is None]
    lines = [f"{num_runs - num_left} of {num_runs} runs are done"]
    if not num_left:
        return lines
    lines += ["", *align_columns(rows), ""]
    lines.append(
        f"{num_left} runs, {jobs} at a time: about {duration(seconds)}, validations and scoring "
        f"not counted; {size(disk)} of disk for checkpoints, at least {size(memory)} of memory"
    )
    if unknown:
        lines.append(f"no forecast of {', '.join(unknown)}: a step does not fit into memory")
    return lines


def format_points(points: Sequence[PointStatus], plan: Plan) -> list[str]:
    """Return the lines of a table of all points."""
    rows = [[plan.describe(each.name), _count(each), _score(each)] for each in points]
    return align_columns([["point", "seeds", "mean"], *rows])


def _count(point: PointStatus) -> str:
    """Return the number of a point's finished runs, and what became of others."""
    failed = f", {point.failed} failed" if point.failed else ""
    return f"{len(point.runs)}{', pruned' if point.is_pruned else ''}{failed}"


def _score(point: PointStatus) -> str:
    if point.mean is None:
        return "-"
    deviation = "" if point.deviation is None else f" ± {point.deviation:.2f}"
    return f"{point.mean:.2f}{deviation}"
