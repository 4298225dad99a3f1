"""A worker: takes tasks that no other worker holds, and runs each as a process of its own."""

import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from transformer_cli.child import APART, CHILD, STOP, environment
from transformer_cli.errors import RunError, RunInUseError
from transformer_cli.files import open_regular
from transformer_cli.sweeps.attempts import finish, open_attempt
from transformer_cli.sweeps.lease import Heartbeat, Lease, LeaseBoard
from transformer_cli.sweeps.plan import Plan
from transformer_cli.sweeps.tasks import Task

_POLL_SECONDS = 0.1
_IDLE_SECONDS = 0.5
"""Between two looks where nothing could be started."""
_LOOK_SECONDS = 2.0
"""Between two looks at the validations of a search's trainings."""
_RETRY_SECONDS = 5.0
"""Between two looks at tasks that other workers hold."""


_ERROR = "transformer-cli: error: "


@dataclass(frozen=True)
class Event:
    """What has happened to a task."""

    kind: Literal["started", "done", "failed", "lost", "pruned", "stopped", "waiting"]
    task: Task
    message: str = ""


@dataclass
class _Job:
    task: Task
    lease: Lease
    attempt: Path
    slot: int
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    """Size of the log when the process was started."""


class Worker:
    """Runs tasks, several at a time."""

    def __init__(
        self, plan: Plan, slots: Sequence[Mapping[str, str]], child: Sequence[str] = CHILD
    ) -> None:
        """Make a worker.

        Args:
            plan: the tasks.
            slots: one for each task at a time: what its process has in its environment besides.
            child: starts a task's process, which ends when its stdin is closed.
        """
        self.plan = plan
        self.slots = slots
        self.child = child
        self._board = LeaseBoard(plan.directory.leases)
        self._jobs: list[_Job] = []
        self._leases: list[Lease] = []
        self._postponed: dict[str, float] = {}
        self._looked = 0.0
        self._look_again = 0.0

    @property
    def running(self) -> list[Task]:
        """The tasks that this worker is running."""
        return [job.task for job in self._jobs]

    def work(self, should_stop: Callable[[], bool]) -> Iterator[Event | None]:
        """Run tasks until none is left, here or with other workers, or until a stop.

        Yields:
            what happens, and None a few times a second.
        """
        with Heartbeat(lambda: list(self._leases)), ExitStack() as stack:
            stack.callback(self._stop)
            while not should_stop():
                yield from self._reap()
                yield from self._give_up()
                self.plan.settle_points()
                if self._may_start() and (yield from self._start_next()):
                    continue
                if not self._jobs and self.plan.is_finished():
                    self.plan.settle_points()
                    return
                yield None
                time.sleep(_POLL_SECONDS if self._jobs else _IDLE_SECONDS)

    def _may_start(self) -> bool:
        """Return whether there is room for a task, and a reason to look for one again."""
        has_room = len(self._jobs) < len(self.slots)
        return has_room and time.monotonic() >= self._look_again

    def _start_next(self) -> Generator[Event, None, bool]:
        """Start the first task that can be had, or extend a search; return whether it was done."""
        mine = {job.task.name for job in self._jobs}
        is_data_missing = False
        for task in self.plan.tasks():
            is_data_missing |= task.makes_data
            if task.name in mine or time.monotonic() < self._postponed.get(task.name, 0.0):
                continue
            mine.add(task.name)
            lease = self._board.claim(task.name)
            if lease is None:
                self._postpone(task)
                continue
            self._leases.append(lease)
            if self.plan.is_settled(task):  # by a worker that held it until just now
                self._release(lease)
                continue
            event = self._open_and_start(task, lease)
            yield event
            if event.kind == "started":
                return True
        # Points that wait for data are there to be trained already.
        if not is_data_missing and self.plan.extend(len(self.slots)):
            return True
        self._look_again = time.monotonic() + _IDLE_SECONDS
        return False

    def _open_and_start(self, task: Task, lease: Lease) -> Event:
        try:
            attempt = open_attempt(self.plan.directory, task, lease)
            self._jobs.append(self._start(task, lease, attempt))
        except RunInUseError as error:
            self._postpone(task)
            event = Event("waiting", task, str(error))
        except (RunError, OSError) as error:
            if lease.is_lost():
                event = Event("lost", task)
            else:
                self.plan.fail(task, str(error))
                event = Event("failed", task, str(error))
        else:
            return Event("started", task)
        self._release(lease)
        return event

    def _release(self, lease: Lease) -> None:
        self._leases.remove(lease)
        lease.release()

    def _postpone(self, task: Task) -> None:
        self._postponed[task.name] = time.monotonic() + _RETRY_SECONDS

    def _start(self, task: Task, lease: Lease, attempt: Path) -> _Job:
        used = {job.slot for job in self._jobs}
        slot = next(number for number in range(len(self.slots)) if number not in used)
        log = self.plan.directory.logs / f"{task.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stderr = stack.enter_context(open_regular(log, "ab"))
            log_start = stderr.tell()
            stdout: BinaryIO = stderr
            if task.stdout is not None:
                (attempt / task.stdout).unlink(missing_ok=True)  # it might have another name
                stdout = stack.enter_context((attempt / task.stdout).open("wb"))
            process = subprocess.Popen(
                [*self.child, *task.command(attempt)],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env={**environment(), **self.slots[slot]},
                # Ctrl-C is for this process, which stops its tasks itself.
                **APART,
            )
            return _Job(task, lease, attempt, slot, process, log, log_start)

    def _reap(self) -> Iterator[Event]:
        """End the jobs whose process has ended, or whose lease another worker has taken."""
        for job in list(self._jobs):
            if job.lease.is_lost():
                job.process.kill()
                job.process.wait()
                self._end(job)
                yield Event("lost", job.task)
            elif job.process.poll() is not None:
                event = self._settle(job)
                self._end(job)
                yield event

    def _end(self, job: _Job) -> None:
        self._jobs.remove(job)
        self._release(job.lease)
        self._look_again = 0.0

    def _give_up(self) -> Iterator[Event]:
        """Stop the trainings that are not worth their time; what they have reached stays."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for job in list(self._jobs):
            if self.plan.should_give_up(job.task, job.attempt):
                self._terminate(job)
                job.process.wait()
                self._end(job)
                is_pruned = self.plan.directory.is_pruned(job.task.point)
                yield Event("pruned" if is_pruned else "stopped", job.task)

    def _settle(self, job: _Job) -> Event:
        if job.process.returncode == 0:
            finish(self.plan.directory, job.task, job.attempt)
        if self.plan.is_done(job.task):  # perhaps by a worker that was thought to be gone
            return Event("done", job.task)
        message = _explain(job)
        self.plan.fail(job.task, message)
        return Event("failed", job.task, message)

    def _stop(self) -> None:
        """Stop all jobs, each with a checkpoint where it is a training."""
        for job in self._jobs:
            self._terminate(job)
        for job in self._jobs:
            job.process.wait()
        for job in list(self._jobs):
            if job.process.returncode == 0:
                with suppress(OSError):  # what cannot be kept now is kept by the next session
                    self._settle(job)
            self._end(job)

    def _terminate(self, job: _Job) -> None:
        with suppress(ProcessLookupError):
            job.process.send_signal(STOP)


def _explain(job: _Job) -> str:
    """Return why a process has failed: its error, or else its last line and how it ended."""
    with open_regular(job.log) as file:
        file.seek(job.log_start)
        lines = file.read().decode(errors="replace").splitlines()
    for line in reversed(lines):
        if line.startswith(_ERROR):
            return line.removeprefix(_ERROR)
    code = job.process.returncode
    if code < 0:
        return f"killed by signal {-code} (out of memory?)"
    return f"exit code {code}; see {job.log}"
