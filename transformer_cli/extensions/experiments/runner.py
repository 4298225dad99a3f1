"""Run jobs, several at a time, each as a process of its own, here or on a cluster."""

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, NamedTuple

from transformer_cli.base.child import PYTHON, environment
from transformer_cli.base.errors import TransformerCliError, UsageError
from transformer_cli.base.messages import log
from transformer_cli.base.ranks import count_cores
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.config.choices import DeviceName, PrecisionName
from transformer_cli.extensions.cluster import cluster as clusters, fence
from transformer_cli.extensions.cluster.settings import ClusterSettings
from transformer_cli.extensions.experiments.child import TERMINATED, Command, Ended, run_command
from transformer_cli.extensions.experiments.job import Job, JobDirectory
from transformer_cli.runs.checkpoint import list_checkpoints, parse_step
from transformer_cli.runs.directory import lock_directory

PATIENCE = 5.0  # seconds in which the processes that a killed one had started have ended
_POLL_SECONDS = 0.1
_LOOK_SECONDS = 2.0
"""How often to look whether to give up running jobs, and how many may run."""
_MAX_RESTARTS = 3  # how often to restart a job that was ended from outside


@dataclass(frozen=True)
class Computing:
    """How the commands of all jobs compute."""

    device: DeviceName = "auto"
    precision: PrecisionName = "auto"
    training_precision: PrecisionName = "auto"  # of all trainings
    threads: int | None = None
    allow_suspect_data: bool = False

    @classmethod
    def choose(
        cls,
        directory: JobDirectory,
        device: DeviceName,
        precision: PrecisionName,
        threads: int | None,
        allow_suspect_data: bool,
    ) -> "Computing":
        """Return how to begin in a directory of jobs, or how to resume: as it was begun.

        What the precision 'auto' stands for in trainings on a CPU is decided once.

        Raises:
            UsageError: it was begun with another precision.
        """
        mark = directory.read_mark() or {}
        begun: PrecisionName | None = mark.get("precision")
        if begun is not None and precision not in ("auto", begun):
            how = "without --precision" if begun == "auto" else f"with --precision {begun}"
            raise UsageError(
                f"--precision {precision}: {directory.path} was begun {how}; resume it so, or "
                f"choose another directory with {directory.option}"
            )
        precision = begun or precision
        training: PrecisionName = mark.get("training_precision") or precision
        if begun is None and precision == "auto":
            from transformer_cli.model.device import choose_device, has_bfloat16  # imports torch

            if choose_device(device).type == "cpu":
                training = "bfloat16" if has_bfloat16() else "float32"
        return cls(device, precision, training, threads, allow_suspect_data)

    @property
    def precisions(self) -> dict[str, str]:
        """What a directory's mark records of it."""
        return {"precision": self.precision, "training_precision": self.training_precision}

    @property
    def options(self) -> list[str]:
        """Options of all commands that run a model, except of trainings."""
        return self._compose(self.precision)

    @property
    def training_options(self) -> list[str]:
        return self._compose(self.training_precision)

    def _compose(self, precision: PrecisionName) -> list[str]:
        threads = [] if self.threads is None else ["--threads", str(self.threads)]
        return ["--device", self.device, "--precision", precision, *threads]

    @property
    def suspect_options(self) -> list[str]:
        return ["--allow-suspect-data"] if self.allow_suspect_data else []


class Plan(ABC):
    """Decides which jobs to run; the directory's records tell how they went."""

    directory: JobDirectory
    computing: Computing

    @abstractmethod
    def jobs(self) -> Iterable[Job]:
        """Return the jobs that may run now, in order; a job comes after those that it needs."""

    def extend(self) -> bool:
        """Add jobs when all others have ended or are running; return False if there are no more."""
        return False

    def give_up(self, job: Job) -> Literal["pruned", "stopped"] | None:
        """Return why a running job should be stopped; None: it should go on."""
        return None

    def describe_rest(self) -> str:
        """Return what to add to the line about a finished training; empty: nothing."""
        return ""


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


class Workers(NamedTuple):
    """Processes here, or workers of a cluster, that run jobs."""

    executor: Executor  # calls ``run_command``; its arguments and result can be pickled
    places: Callable[[], Sequence[Mapping[str, str]]] = lambda: ({},)
    """Returns extra environment variables, one mapping for each job that may run at a time."""
    threads: int = 1  # cores for each job
    lock: int | None = None
    """The descriptor of the directory's lock, which jobs hold as well; None: on a cluster."""


@dataclass
class _Running:
    job: Job
    place: int
    command: Command
    future: Future[Ended]
    given_up: Literal["pruned", "stopped"] | None = None


@dataclass
class Runner:
    """Runs the jobs of a plan whose directory this process has locked.

    On a cluster, jobs continue without this process. The next process submits the same commands,
    by which the cluster finds them.
    """

    plan: Plan
    workers: Workers
    shows_output: bool = False
    """Whether commands write to this process' stderr instead of their logs."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _may_start: bool = True  # False: no job could be started, and none has ended since
    _looked_at: float = field(default_factory=time.monotonic)
    _places: Sequence[Mapping[str, str]] = ()

    def run(self, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Run all jobs or until a stop; yield events."""
        self._places = self.workers.places()
        try:
            while not should_stop():
                for running in [each for each in self._running.values() if each.future.done()]:
                    yield from self._end(running)
                self._look()
                if self._may_start and len(self._running) < len(self._places):
                    self._may_start = yield from self._start_next()
                elif self._running:
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
        future = self.workers.executor.submit(run_command, command)
        self._running[job.name] = _Running(job, place, command, future)

    def _find_begun(self, job: Job, holder: str | None) -> Event:
        """Return the event for a job that began earlier and goes on."""
        if holder is not None and self.workers.lock is None:
            return Event("already running", job, f"on {holder}; waiting for it")
        if holder is not None:
            return Event("taken over", job, f"from {holder}")
        if job.run is None:
            return Event("resumed", job, "")
        steps = [parse_step(path) or 0 for path in list_checkpoints(job.run.checkpoints)]
        return Event("resumed", job, f"from step {max(steps, default=0):,}")

    def _make_command(self, job: Job) -> Command:
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
            lock=self.workers.lock,
        )

    def _end(self, running: _Running) -> Iterator[Event]:
        """Record how a job ended, or start it again."""
        job = running.job
        del self._running[job.name]
        self._may_start = True
        if running.given_up is not None:
            yield Event(running.given_up, job)
            return
        try:
            ended = running.future.result()
            if ended.code == 0:
                self.plan.directory.finish(job)
                yield Event("done", job)
                return
            # Another worker took it over, or its worker was shut down.
            is_by_others = ended.code == fence.EXIT_CODE or (
                self.workers.lock is None and ended.code == TERMINATED
            )
            restarts = running.command.restarts + 1
            if is_by_others and restarts <= _MAX_RESTARTS:
                running.command = running.command._replace(restarts=restarts)
                running.future = self.workers.executor.submit(run_command, running.command)
                self._running[job.name] = running
                return
        except (TransformerCliError, OSError) as error:
            yield self._fail(job, str(error))
            return
        yield self._fail(job, ended.message, ended.code)

    def _look(self) -> None:
        """Stop the jobs that the plan gives up; their checkpoints stay."""
        if time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        self._places = self.workers.places()
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
                if running.given_up is None and running.future.result().code == 0:
                    self.plan.directory.finish(running.job)

    def _must_end(self, running: _Running) -> bool:
        """Return whether to wait until a job that is asked to stop has ended."""
        if running.future.done():
            return False
        # A job that waits for a worker sees the request when it gets one.
        return self.workers.lock is not None or fence.find_host(running.command.owner) is not None

    def _request_stop(self, job: Job) -> None:
        self.plan.directory.file(job.name, ".stop").touch()


def run_jobs(
    plan: Plan, workers: Workers, stopping: str, shows_output: bool = False
) -> tuple[int | None, list[Event]]:
    """Run the jobs of a plan until none is left, or until a signal; log what happens to them.

    Return the signal's exit code, and the failures. ``stopping`` is what to say after a signal.
    """
    plan.directory.remove_leftovers()
    failed = []
    with stop_requests(stopping) as requested:
        for event in Runner(plan, workers, shows_output).run(lambda: requested.signal is not None):
            is_run = event.kind == "done" and event.job.config is not None
            rest = plan.describe_rest() if is_run else ""
            log("; ".join(filter(None, (event.describe(), rest))))
            failed += [event] if event.kind == "failed" else []
    if requested.signal is None:
        return None, failed
    log("stopped; run it again to resume")
    return exit_code(requested.signal), failed


@contextmanager
def open_workers(
    path: Path, cluster: ClusterSettings | None, device: str = "cpu", jobs: int = 1
) -> Iterator[Workers]:
    """Lock a directory of jobs, and open a cluster or threads that start processes for them."""
    with lock_directory(path, PATIENCE, is_guarded=cluster is not None) as lock:
        if cluster is None:
            gpus = list_gpus() if device in ("auto", "cuda") and jobs > 1 else []
            every = cycle([{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus] or [{}])
            places = [*islice(every, jobs)]
            with ThreadPoolExecutor(jobs) as executor:
                yield Workers(executor, lambda: places, max(1, count_cores() // jobs), lock)
            return
        with clusters.open_cluster(cluster, log) as remote:
            remote.check_shared(path)
            yield Workers(
                remote.lasting(), lambda: [{}] * max(1, remote.num_workers), remote.threads
            )


def list_gpus() -> list[str]:
    """Return the names of this process' GPUs in CUDA_VISIBLE_DEVICES."""
    # Another process asks, so that this one does not hold a GPU's memory for hours.
    count = "import torch; print(torch.cuda.device_count())"
    counted = subprocess.run(
        [*PYTHON, "-c", count], env=environment(), stdout=subprocess.PIPE, check=False
    )
    gpus = int(counted.stdout or 0)
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[:gpus]
