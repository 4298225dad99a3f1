"""The paths of a sweep's directory."""

import json
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.compression import write_text
from transformer_cli.errors import UsageError
from transformer_cli.files import TEMPORARY_MARK, check_no_links, read_small
from transformer_cli.packages import __version__
from transformer_cli.runs.directory import SWEEP_MARK, SWEEP_PLAN, SWEEP_RUNS, RunDirectory

FORMAT = 1
_PROGRAM = "transformer-cli sweep"


@dataclass(frozen=True)
class SweepDirectory:
    """The paths of one sweep; creating this object touches no file."""

    path: Path

    @property
    def mark(self) -> Path:
        """Path of the file that marks the directory as a sweep."""
        return self.path / SWEEP_MARK

    @property
    def attempts(self) -> Path:
        """Directory of what tasks are making, by task and generation of their lease."""
        return self.path / "attempts"

    @property
    def leases(self) -> Path:
        """Directory of the leases; see lease.py."""
        return self.path / "leases"

    @property
    def failures(self) -> Path:
        """Directory with the error messages of tasks that have failed."""
        return self.path / "failures"

    def failure(self, task: str) -> Path:
        """Return the path of the message of a task that has failed."""
        return self.failures / f"{task}.txt"

    def pruned(self, point: str) -> Path:
        """Return the path of the file that says that a point was given up early."""
        return self.path / "pruned" / point

    def is_pruned(self, point: str) -> bool:
        """Return whether a point was given up early."""
        return self.pruned(point).exists()

    @property
    def plan(self) -> Path:
        """Path of what was planned last; see results.py."""
        return self.path / SWEEP_PLAN

    @property
    def logs(self) -> Path:
        """Directory with what each task's process writes to stderr."""
        return self.path / "logs"

    @property
    def report(self) -> Path:
        """Path of the page about all runs."""
        return self.path / "report.html"

    def run(self, point: str, seed: int) -> RunDirectory:
        """Return the directory of a finished run."""
        return RunDirectory(self.path / run_name(point, seed))

    def create(self) -> None:
        """Create the directory and mark it, unless it is there.

        Raises:
            UsageError: it holds something else.
            RunError: it holds links, pipes or devices.
        """
        if self.is_marked():
            check_no_links(self.path)
            return
        beginning = f"{self.mark.name}{TEMPORARY_MARK}"  # of another worker, or of a killed one
        if self.path.is_dir() and not all(
            path.name.startswith(beginning) for path in self.path.iterdir()
        ):
            if self.is_marked():  # by another worker, just now
                return
            raise UsageError(
                f"{self.path}: holds files but no sweep (no {self.mark.name} of "
                "transformer-cli's); choose another directory with --sweep-dir"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot be made ({error.strerror}); choose another directory with "
                "--sweep-dir"
            ) from error
        mark = {"format": FORMAT, "program": _PROGRAM, "version": __version__}
        write_text(self.mark, json.dumps(mark) + "\n")

    def is_marked(self) -> bool:
        """Return whether the directory is a sweep's.

        Raises:
            UsageError: a later version has marked it.
        """
        try:
            mark = json.loads(read_small(self.mark))
        except (OSError, ValueError, RecursionError):
            return False
        if not isinstance(mark, dict) or mark.get("program") != _PROGRAM:
            return False
        if mark.get("format") != FORMAT:
            raise UsageError(
                f"{self.mark}: format {mark.get('format')}, by transformer-cli "
                f"{mark.get('version')}, but this version knows format {FORMAT}; use a newer one, "
                "or choose another --sweep-dir"
            )
        return True


def run_name(point: str, seed: int) -> str:
    """Return the name of a run's task, which is its path in the sweep's directory."""
    return f"{SWEEP_RUNS}/{point}/seed-{seed}"


def scores_name(split: str, point: str, seed: int) -> str:
    """Return the name of the task that scores a run on a split, which is the path of its files."""
    return f"scores/{split}/{point}/seed-{seed}"


def data_name(key: str) -> str:
    """Return the name of the task that prepares data, which is its path."""
    return f"data/{key}"
