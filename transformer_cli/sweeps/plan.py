"""What is to be done in a sweep, and what of it is done."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from transformer_cli.config.differences import differences
from transformer_cli.config.schema import Config
from transformer_cli.errors import ConfigError, RunError
from transformer_cli.evaluation.metric_choice import choose_selection
from transformer_cli.files import write_text
from transformer_cli.foreign_files import read_small
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.sweeps.attempts import newest_attempt
from transformer_cli.sweeps.directory import SweepDirectory
from transformer_cli.sweeps.finished import FinishedRun, read_finished_run, read_scores
from transformer_cli.sweeps.points import BASE_POINT, Point, point_names
from transformer_cli.sweeps.search import Search
from transformer_cli.sweeps.sweep_file import SEED, Sweep
from transformer_cli.sweeps.tasks import Task, data_task, score_task, train_task


class Plan:
    """The tasks of a sweep, and their states, which are files that all workers see."""

    def __init__(self, sweep: Sweep, directory: SweepDirectory, options: Sequence[str]) -> None:
        """Plan a sweep.

        Args:
            sweep: its file.
            directory: where to; a search is begun there, or opened.
            options: of ``train`` and ``evaluate``, for all tasks alike: device, precision, threads.
        """
        self.sweep = sweep
        self.directory = directory
        self.options = options
        self._data_tasks: dict[str, Task] = {}
        self._finished: dict[Path, FinishedRun] = {}
        self.search: Search | None = None
        if sweep.space is not None:
            self.search = Search(sweep, sweep.space, self.metric, directory)

    @property
    def seeds(self) -> range:
        """The seeds that each point is trained with."""
        return range(1, self.sweep.settings.num_seeds + 1)

    @property
    def points(self) -> list[Point]:
        """All points so far."""
        return self.sweep.points if self.search is None else self.search.points

    def describe(self, point: str) -> str:
        """Return a point's name, and for a search's trial its settings."""
        if self.search is None:
            return point
        (nodes,) = (each.nodes for each in self.points if each.name == point)
        return f"{point} ({point_names([nodes])[0]})"

    @property
    def num_runs(self) -> int:
        """Number of runs that there will be, at most."""
        if self.search is not None and self.search.is_over:
            return len(self.points) * len(self.seeds)
        return self.sweep.num_points * len(self.seeds)

    @property
    def reference(self) -> str:
        """Name of the point that others are compared with: the base's settings, or the first."""
        base = self.sweep.config_of(Point(BASE_POINT))
        names = [point.name for point in self.points]
        same = [each.name for each in self.points if self.sweep.config_of(each) == base]
        return next(iter([*same, *names]), BASE_POINT)

    @cached_property
    def metric(self) -> str:
        """The metric of validations that points are judged by.

        Of BLEU, only the lowercased one counts where a point's translations are lowercased.
        """
        chosen = {choose_selection(self.sweep.config_of(each)) for each in self.sweep.samples}
        asked = self.sweep.settings.metric
        if "bleu_lc" in chosen and asked in (None, "bleu"):
            return "bleu_lc"
        return asked or choose_selection(self.sweep.config_of(Point(BASE_POINT)))

    # --- tasks ------------------------------------------------------------------------------------

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks that are neither done nor failed, and wait for no other, in order."""
        is_waiting = False
        for train, data in self.train_tasks():
            if self.is_settled(train):
                continue
            if (message := self.failure(data)) is not None:
                self.fail(train, message)
                continue
            is_waiting = True
            yield train if self.is_done(data) else data
        if not is_waiting and (self.search is None or self.search.is_over):
            yield from (task for task in self.score_tasks() if not self.is_settled(task))

    def train_tasks(self) -> list[tuple[Task, Task]]:
        """Return the task of each run, with that of its data; every point's first seed first."""
        return [self._train_task(point, seed) for seed in self.seeds for point in self.points]

    def score_tasks(self) -> list[Task]:
        """Return the tasks that score the finished runs on the splits to evaluate."""
        return [
            score_task(self.directory, train.point, train.seed, split, self.options)
            for split in self.sweep.settings.evaluate
            for train, _ in self.train_tasks()
            if self.is_done(train)
        ]

    def _train_task(self, point: Point, seed: int) -> tuple[Task, Task]:
        base = self.sweep.base
        if point.name not in self._data_tasks:
            config = self.sweep.config_of(point)
            self._data_tasks[point.name] = data_task(base, point, config)
        data = self._data_tasks[point.name]
        return train_task(base, point, seed, data.name, self.options), data

    def is_finished(self) -> bool:
        """Return whether nothing is left to be done, by whatever worker."""
        is_over = self.search is None or self.search.is_over
        return is_over and next(self.tasks(), None) is None

    # --- states -----------------------------------------------------------------------------------

    def is_done(self, task: Task) -> bool:
        """Return whether a task's result is there."""
        return task.result(self.directory).is_dir()

    def is_settled(self, task: Task) -> bool:
        """Return whether nothing is left to be done for a task: it is done, or has failed."""
        return (
            self.is_done(task)
            or self.failure(task) is not None
            or (self.search is not None and task.trains and self.search.is_ended(task.point))
        )

    def failure(self, task: Task) -> str | None:
        """Return the message of a task that has failed."""
        try:
            return read_small(self.directory.failure(task.name)).decode(errors="replace").strip()
        except FileNotFoundError:
            return None

    def has_failed(self, task: Task) -> bool:
        """Return whether a task has failed, and no other worker has done it since."""
        return not self.is_done(task) and self.failure(task) is not None

    def fail(self, task: Task, message: str) -> None:
        """Record that a task has failed; the next session tries it again."""
        path = self.directory.failure(task.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, f"{message}\n")

    def forget_failures(self) -> None:
        """Have failed tasks tried again; not those of a search's trials, which have ended."""
        tasks = [task for pair in self.train_tasks() for task in pair]
        for task in [*tasks, *self.score_tasks()]:
            if self.search is None or not task.trains:
                self.directory.failure(task.name).unlink(missing_ok=True)

    def read_run(self, task: Task) -> FinishedRun:
        """Return what a finished run has reached."""
        path = task.result(self.directory)
        if path not in self._finished:
            self._finished[path] = read_finished_run(path, self.metric)
        return self._finished[path]

    def check_trained_alike(self) -> None:
        """Check that the runs that are there have the settings of their points.

        Raises:
            ConfigError: one has others, as the sweep's file or its base has changed since.
        """
        for point in self.points:
            config = self.sweep.config_of(point)
            for seed in self.seeds:
                task = self._train_task(point, seed)[0]
                path = task.result(self.directory)
                found = path if path.is_dir() else newest_attempt(self.directory, task.name)
                if found is None or not (found / "config.yaml").is_file():
                    continue
                with suppress(RunError):  # another worker has finished it just now
                    _check_alike(RunDirectory(found), config.model_copy(update={SEED: seed}))

    # --- a search ---------------------------------------------------------------------------------

    def extend(self, jobs: int) -> bool:
        """Add a point if this is a search that goes on; return whether one was added.

        Args:
            jobs: runs at a time, among which the budget is divided.

        Raises:
            RunError: the last trials have all failed.
        """
        if self.search is None or self.search.is_over:
            return False
        budget = self.sweep.settings.budget_seconds
        if budget is not None and self._seconds_spent() / jobs > budget:
            self.search.is_over = True
        return self.search.extend()

    def settle_points(self) -> None:
        """End the search's trials whose runs are all done, or of which one has failed."""
        if self.search is None:
            return
        for point in self.points:
            if self.search.is_ended(point.name):
                continue
            tasks = [self._train_task(point, seed)[0] for seed in self.seeds]
            failures = [message for each in tasks if (message := self.failure(each)) is not None]
            if failures:
                self.search.fail(point.name, failures[0])
            elif all(map(self.is_done, tasks)):
                runs = map(self.read_run, tasks)
                scores = [run.score for run in runs if run.score is not None]
                first = read_scores(tasks[0].result(self.directory), self.metric)
                self.search.complete(point.name, scores, first)

    def should_give_up(self, task: Task, attempt: Path) -> bool:
        """Return whether a run that is being trained is not worth its time."""
        if self.search is None or not task.trains:
            return False
        if self.search.is_ended(task.point):
            return True
        if self.sweep.settings.prune == "none" or task.seed != self.seeds[0]:
            return False
        if not self.search.should_prune(task.point, read_scores(attempt, self.metric)):
            return False
        path = self.directory.pruned(task.point)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        self.search.prune(task.point)
        return True

    def _seconds_spent(self) -> float:
        """Return the time of all trainings of this search."""
        total = 0.0
        for task, _ in self.train_tasks():
            if self.is_done(task):
                total += self.read_run(task).seconds
            elif (attempt := newest_attempt(self.directory, task.name)) is not None:
                total += read_finished_run(attempt, self.metric).seconds
        return total


def _check_alike(run: RunDirectory, config: Config) -> None:
    changed = differences(run.load_config(), config)
    if changed:
        listed = "; ".join(map(str, changed))
        raise ConfigError(
            f"{run.path}: trained with other settings ({listed}); sweep into another directory "
            "with --sweep-dir, or delete this run to train it again"
        )
