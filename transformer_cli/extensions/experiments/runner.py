"""Run the jobs of a sweep or a distillation in separate processes, several at a time."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice

from transformer_cli.base.errors import TransformerCliError
from transformer_cli.base.files import read_small
from transformer_cli.base.locations import open_regular
from transformer_cli.base.messages import log
from transformer_cli.base.text_files import write_text
from transformer_cli.cli.process import exit_code, stop_requests
from transformer_cli.extensions.experiments import child
from transformer_cli.extensions.experiments.job import Job, JobDirectory

PATIENCE = 5.0  # seconds to wait for the lock, which a killed session's jobs hold until they end
_POLL_SECONDS = 0.1
_ERROR = "transformer-cli: error: "


@dataclass(frozen=True, eq=False)
class Event:
    """A change in a job's state: it has started, resumed, ended or failed."""

    job: Job
    what: str  # 'started', 'resumed', 'done' or 'failed', perhaps with a reason
    message: str = ""  # why it failed; empty if its command has printed the reason
    code: int = 0  # if it failed: its exit code, or 1


@dataclass
class _Running:
    job: Job
    place: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    log_start: int = 0  # where the command's part of the log begins


@dataclass
class Runner:
    """Runs the jobs of a sweep or distillation, whose directory this process has locked."""

    directory: JobDirectory
    jobs: Sequence[Job]  # in order: each job comes after the jobs that it needs
    lock: int  # the descriptor of the directory's lock, which commands also hold
    places: Sequence[Mapping[str, str]] = ({},)
    """Extra environment variables, one mapping for each of the jobs that run at the same time."""
    shows_output: bool = False  # whether commands write to this process's stderr, not to their logs
    failed: dict[str, Event] = field(default_factory=dict)
    """Failed jobs' events, keyed by job name; a job that needs a failed job gets its event."""
    _running: list[_Running] = field(default_factory=list)

    def run(self, should_stop: Callable[[], bool]) -> Iterator[Event]:
        """Run all jobs, and yield their events; stop early if ``should_stop`` returns true."""
        try:
            while not should_stop():
                for running in [each for each in self._running if each.process.poll() is not None]:
                    yield self._end(running)
                if len(self._running) < len(self.places) and (job := self._find_next()):
                    yield from self._start(job)
                elif self._running:
                    time.sleep(_POLL_SECONDS)
                else:
                    return
        finally:
            for running in self._running:
                child.stop(running.process)
            for running in self._running:
                if running.process.wait() == 0:
                    with suppress(TransformerCliError, OSError):  # the next session does it again
                        self._finish(running.job)

    def _find_next(self) -> Job | None:
        """Return the next job that can run, or None. A job that needs a failed job fails, too."""
        running = {each.job.name for each in self._running}
        for job in self.jobs:
            if job.name in running or job.name in self.failed:
                continue
            if failed := [need for need in job.needs if need in self.failed]:
                self.failed[job.name] = self.failed[failed[0]]
            # If the inputs cannot be read, the start of the job meets the same problem.
            elif self.directory.done.issuperset(job.needs) and not self.directory.seems_done(job):
                return job
        return None

    def _start(self, job: Job) -> Iterator[Event]:
        """Prepare a job, start its command if it has one, and yield the job's events so far."""
        try:
            yield Event(job, self.directory.begin(job))
            job.prepare()
            if job.command:
                self._running.append(self._start_command(job))
            else:
                self._finish(job)
                yield Event(job, "done")
        except (TransformerCliError, OSError) as error:
            yield self._fail(job, str(error))

    def _start_command(self, job: Job) -> _Running:
        used = [each.place for each in self._running]
        place = next(each for each in self.places if not any(each is other for other in used))
        with ExitStack() as stack:
            stderr, log_start = 2, 0
            if not self.shows_output:
                path = self.directory.file(job.name, ".log")
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open_regular(path, "ab"))
                stderr, log_start = file.fileno(), file.tell()
            stdout = stderr
            if job.stdout is not None:
                out = self.directory.file(job.name, ".out")
                out.unlink(missing_ok=True)
                stdout = stack.enter_context(open_regular(out, "ab")).fileno()
            process = child.start(job.command, stdout, stderr, place, self.lock)
        return _Running(job, place, process, log_start)

    def _end(self, running: _Running) -> Event:
        self._running.remove(running)
        job, code = running.job, running.process.returncode
        if code:
            return self._fail(job, self._find_problem(running), code)
        try:
            self._finish(job)
        except (TransformerCliError, OSError) as error:
            return self._fail(job, str(error))
        return Event(job, "done")

    def _finish(self, job: Job) -> None:
        if job.stdout is not None:
            out = self.directory.file(job.name, ".out")
            write_text(job.stdout, read_small(out).decode())
            out.unlink()
        self.directory.finish(job)

    def _fail(self, job: Job, message: str, code: int = 1) -> Event:
        what = f"failed: {message}" if message else "failed"
        self.failed[job.name] = Event(job, what, message, max(code, 1))
        return self.failed[job.name]

    def _find_problem(self, running: _Running) -> str:
        """Return why a command failed, or '' if the command has printed the reason to stderr."""
        code = running.process.returncode
        how = f"killed by signal {-code} (out of memory?)" if code < 0 else f"exit code {code}"
        if self.shows_output:
            return how if code < 0 else ""
        path = self.directory.file(running.job.name, ".log")
        with open_regular(path) as file:
            file.seek(running.log_start)
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
        return errors[-1] if errors else f"{how}; see {path}"


def run_jobs(
    runner: Runner, stopping: str, describe_rest: Callable[[], str] = lambda: ""
) -> int | None:
    """Run jobs until none is left or a signal arrives, and log their events.

    Return the exit code for the signal, or None without one. On a signal, ``stopping`` is logged.
    ``describe_rest`` returns text to log with the end of each training, e.g. the time left.
    """
    runner.directory.remove_leftovers()
    with stop_requests(stopping) as requested:
        for event in runner.run(lambda: requested.signal is not None):
            is_training = event.what == "done" and event.job.config is not None
            rest = describe_rest() if is_training else ""
            log("; ".join(filter(None, (f"{event.job.name}: {event.what}", rest))))
    if requested.signal is None:
        return None
    log("stopped; run it again to resume")
    return exit_code(requested.signal)


def list_places(device: str, jobs: int) -> list[Mapping[str, str]]:
    """Return environment variables for ``jobs`` parallel jobs; they assign GPUs, if any exist."""
    names: list[str] = []
    if jobs > 1 and device in ("auto", "cuda"):
        import torch

        count = torch.cuda.device_count()  # uses no GPU memory
        known = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
        names = known.split(",")[:count]
    every = islice(cycle(names or [""]), jobs)
    # Each place needs its own mapping, because the runner compares them by identity.
    return [{"CUDA_VISIBLE_DEVICES": name} if name else {} for name in every]
