"""Run jobs, several at a time, each as a process of its own, here or on a cluster."""

import platform
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from transformer_cli.base.child import environment
from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.locations import open_regular
from transformer_cli.base.writing import whole_file
from transformer_cli.extensions.cluster import fence
from transformer_cli.extensions.experiments.child import APART, CHILD, STOP
from transformer_cli.extensions.experiments.job import Job, JobDirectory
from transformer_cli.runs.checkpoint import newest_step

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 2.0
"""How often to look whether to give up running jobs, and how many may run."""
_MAX_RESTARTS = 3  # how often to restart a job that was ended from outside
_TERMINATED = 143
"""Exit code of a command that was asked to end; batch systems ask all of a worker's processes."""
ERROR = "transformer-cli: error: "


class Plan(ABC):
    """Decides which jobs to run; the directory's records tell how they went."""

    directory: JobDirectory

    @abstractmethod
    def jobs(self) -> Iterable[Job]:
        """Return the jobs that may run now, in order; a job comes after those that it needs."""

    def extend(self) -> bool:
        """Add jobs when all others have ended or are running; return False if there are no more."""
        return False

    def give_up(self, job: Job) -> Literal["pruned", "stopped"] | None:
        """Return why a running job should be stopped; None: it should go on."""
        return None


class Event(NamedTuple):
    """Something that has happened to a job."""

    kind: Literal[
        "started", "resumed", "taken over", "already running", "done", "failed", "pruned", "stopped"
    ]
    job: Job
    message: str = ""
    code: int = 0  # the exit code of a command that has failed

    def describe(self) -> str:
        """Return the event as a line, or as two if a job is started again."""
        if self.message and self.kind == "started":
            return f"{self.job.name}: {self.message}\n{self.job.name}: started"
        separator = ": " if self.kind == "failed" else " "
        return f"{self.job.name}: {separator.join(filter(None, (self.kind, self.message)))}"


class Ended(NamedTuple):
    """How a command ended."""

    code: int  # exit code of the process; negative: the signal that killed it
    message: str = ""  # why it failed; empty if it printed that itself


@dataclass
class _Running:
    job: Job
    place: int
    command: "Command"
    future: Future[Ended]
    given_up: Literal["pruned", "stopped"] | None = None


@dataclass
class Runner:
    """Runs the jobs of a plan whose directory this process has locked.

    On a cluster, jobs continue without this process. The next process submits the same commands,
    by which the cluster finds them.
    """

    plan: Plan
    executor: Executor  # calls ``run_command``; its arguments and result can be pickled
    lock: int | None = None  # the descriptor of the directory's lock; see ``Command.lock``
    places: Callable[[], Sequence[Mapping[str, str]]] = lambda: ({},)
    """Returns extra environment variables, one mapping for each job that may run at a time."""
    shows_output: bool = False
    """Whether commands write to this process' stderr instead of their logs."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _may_start: bool = True  # False: no job could be started, and none has ended since
    _looked_at: float = field(default_factory=time.monotonic)
    _places: Sequence[Mapping[str, str]] = ()

    @property
    def running(self) -> list[Job]:
        """The jobs that run now."""
        return [running.job for running in self._running.values()]

    def run(self, should_stop: Callable[[], bool]) -> Iterator[Event | None]:
        """Run all jobs or until a stop; yield events, and None a few times a second."""
        self._places = self.places()
        try:
            while not should_stop():
                for running in [each for each in self._running.values() if each.future.done()]:
                    yield self._end(running)
                self._look()
                if self._may_start and len(self._running) < len(self._places):
                    self._may_start = yield from self._start_next()
                elif self._running:
                    yield None
                    futures = [running.future for running in self._running.values()]
                    wait(futures, _POLL_SECONDS, FIRST_COMPLETED)
                else:
                    return
        finally:
            self._stop()

    def _start_next(self) -> Generator[Event, None, bool]:
        """Start the next job, or have more planned; return whether there was something to do."""
        is_blocked = has_failed = False
        for job in self.plan.jobs():
            if job.name in self._running or job.name in self.plan.directory.failed:
                continue
            failed = [need for need in job.needs if need in self.plan.directory.failed]
            if failed:
                self.plan.directory.end(job, "failed", self.plan.directory.failed[failed[0]])
                has_failed = True
                continue
            if any(need not in self.plan.directory.done for need in job.needs):
                is_blocked = True
                continue
            try:
                if self.plan.directory.is_done(job):
                    continue
            except (TransformerCliError, OSError) as error:
                yield self._fail(job, str(error))
                has_failed = True
                continue
            yield from self._start(job)
            return True
        # While jobs wait for another one, no more are needed.
        return has_failed or (not is_blocked and self.plan.extend())

    def _fail(self, job: Job, message: str, code: int = 1) -> Event:
        self.plan.directory.end(job, "failed", message)
        return Event("failed", job, message, code)

    def _start(self, job: Job) -> Iterator[Event]:
        """Prepare a job, and submit its command if it has one."""
        try:
            command = self._make_command(job)
            holder = fence.find_host(command.owner)
            is_new, news = self.plan.directory.begin(job)
            yield Event("started", job, news) if is_new else self._find_begun(job, holder)
            job.prepare()
            if not job.command:
                self.plan.directory.finish(job)
                yield Event("done", job)
                return
            command.stop.unlink(missing_ok=True)
        except (TransformerCliError, OSError) as error:
            yield self._fail(job, str(error))
            return
        used = {running.place for running in self._running.values()}
        place = next(number for number in range(len(self._places)) if number not in used)
        command = command._replace(variables=tuple(self._places[place].items()))
        future = self.executor.submit(run_command, command)
        self._running[job.name] = _Running(job, place, command, future)

    def _find_begun(self, job: Job, holder: str | None) -> Event:
        """Return the event for a job that began earlier and goes on."""
        if holder is not None and self.lock is None:
            return Event("already running", job, f"on {holder}; waiting for it")
        if holder is not None:
            return Event("taken over", job, f"from {holder}")
        step = None if job.run is None else newest_step(job.run.checkpoints)
        return Event("resumed", job, "" if step is None else f"from step {step:,}")

    def _make_command(self, job: Job) -> "Command":
        """Return a job's command; it is always the same, as clusters find a job by it."""

        def file(ending: str) -> Path:
            return self.plan.directory.file(job.name, ending).absolute()

        return Command(
            tuple(job.command),
            Path.cwd(),
            file(".stop"),
            file(".owner"),
            job.stdout and job.stdout.absolute(),
            None if self.shows_output else file(".log"),
            lock=self.lock,
        )

    def _end(self, running: _Running) -> Event | None:
        """Record how a job ended; return None if it was started again."""
        job = running.job
        del self._running[job.name]
        self._may_start = True
        if running.given_up is not None:
            return Event(running.given_up, job)
        try:
            ended = running.future.result()
            if ended.code == 0:
                self.plan.directory.finish(job)
                return Event("done", job)
            # Another worker took it over, or its worker was shut down.
            is_by_others = ended.code == fence.EXIT_CODE or (
                self.lock is None and ended.code == _TERMINATED
            )
            restarts = running.command.restarts + 1
            if is_by_others and restarts <= _MAX_RESTARTS:
                running.command = running.command._replace(restarts=restarts)
                running.future = self.executor.submit(run_command, running.command)
                self._running[job.name] = running
                return None
        except (TransformerCliError, OSError) as error:
            return self._fail(job, str(error))
        return self._fail(job, ended.message, ended.code)

    def _look(self) -> None:
        """Stop the jobs that the plan gives up; their checkpoints stay."""
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        self._places = self.places()
        for running in self._running.values():
            if running.given_up is None:
                running.given_up = self.plan.give_up(running.job)
                if running.given_up is not None:
                    self._request_stop(running.job)

    def _stop(self) -> None:
        """Stop all jobs; trainings save a checkpoint."""
        for running in self._running.values():
            with suppress(OSError):  # a full disk; stop the others all the same
                self._request_stop(running.job)
        while left := [each.future for each in self._running.values() if self._must_end(each)]:
            wait(left, _LOOK_SECONDS)
        for running in [each for each in self._running.values() if each.future.done()]:
            # If this fails, the next session records it.
            with suppress(TransformerCliError, OSError):
                if running.future.result().code == 0:
                    self._end(running)

    def _must_end(self, running: _Running) -> bool:
        """Return whether to wait until a job that is asked to stop has ended."""
        if running.future.done():
            return False
        # A job that waits for a worker sees the request when it gets one.
        return self.lock is not None or fence.find_host(running.command.owner) is not None

    def _request_stop(self, job: Job) -> None:
        self.plan.directory.file(job.name, ".stop").touch()


class Command(NamedTuple):
    """A command of transformer-cli that runs in its own process; all paths are absolute."""

    arguments: Sequence[str]
    directory: Path  # where it runs; its arguments may be relative to it
    stop: Path
    """When this file appears, the command is stopped; that works on other machines too."""
    owner: Path  # the file of its ``fence``, in case several workers run it at once
    stdout: Path | None = None
    """The file that its output is written to if it succeeds; None: it goes where stderr goes."""
    log: Path | None = None  # the file that stderr is appended to; None: this process' stderr
    variables: Sequence[tuple[str, str]] = ()  # added to this process' environment
    restarts: int = 0  # how often it was started again
    lock: int | None = None
    """A descriptor that the command keeps open, so that the directory stays locked until it has
    ended, even if its starter ends first."""


def run_command(command: Command) -> Ended:
    """Run a command to its end; any other process that runs it now gives up."""
    for path in (command.directory, command.owner.parent):
        if not path.is_dir():
            missing = f"{platform.node()} has no directory {path}"
            return Ended(1, f"{missing}; work on a disk that all workers see under one path")
    if command.stop.exists():  # the worker that should have seen it is lost
        fence.lift_fence(command.owner)
        command.stop.unlink()
        return Ended(_TERMINATED, "stopped")
    inside = fence.raise_fence(command.owner)
    if command.stdout is None:
        return _run(command, inside, None)
    with suppress(_FailedError), whole_file(command.stdout) as new, new.open("wb") as file:
        ended = _run(command, inside, file.fileno())
        if ended.code:
            raise _FailedError  # the file must not appear
    return ended


class _FailedError(Exception):
    pass


def _run(command: Command, inside: str, stdout: int | None) -> Ended:
    log = command.log
    with ExitStack() as stack:
        stderr, log_start = sys.stderr.fileno(), 0
        if log is not None:
            file = stack.enter_context(open_regular(log, "ab"))
            stderr, log_start = file.fileno(), file.tell()
        variables = {**environment(), **dict(command.variables), fence.VARIABLE: inside}
        # Dask's nanny sets this, which makes training steps take twice as long.
        variables.pop("MALLOC_TRIM_THRESHOLD_", None)
        kept_open = () if command.lock is None or sys.platform == "win32" else (command.lock,)
        process = subprocess.Popen(
            [*CHILD, *command.arguments],
            cwd=command.directory,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=stderr if stdout is None else stdout,
            stderr=stderr,
            pass_fds=kept_open,
            # Ctrl-C goes to this process, which stops the command itself.
            **APART,
        )
        is_asked = False
        while process.poll() is None:
            if command.stop.exists() and not is_asked:
                is_asked = True
                with suppress(ProcessLookupError):
                    process.send_signal(STOP)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_SECONDS)
    if not fence.is_inside(inside):
        # The record and any request to stop belong to the other process.
        return Ended(fence.EXIT_CODE, f"taken over by {fence.find_host(command.owner)}")
    command.stop.unlink(missing_ok=True)
    command.owner.unlink(missing_ok=True)
    code = process.returncode
    if code and log is not None:
        with open_regular(log) as file:
            file.seek(log_start)
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line.removeprefix(ERROR) for line in lines if line.startswith(ERROR)]
        if errors:
            return Ended(code, errors[-1])
    if code < 0:
        return Ended(code, f"killed by signal {-code} (out of memory?)")
    return Ended(code, f"exit code {code}; see {log}" if code and log is not None else "")
