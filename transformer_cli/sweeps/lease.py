"""Leases, by which workers on one shared directory divide tasks among them.

A lease is a file ``leases/TASK.3``; its number is the generation. It is created exclusively, so one
worker holds it, and its holder touches it every few seconds. Another worker that has not seen it
change for ``LEASE_SECONDS``, by its own clock, takes the task over with the next generation. A
generation is never used again, so a worker that was stopped meanwhile finds that it has lost the
lease. What it may write until then goes to the attempt directory of its own generation, where
nobody looks any more. So a task is done once even where a worker comes back.
"""

import glob
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from transformer_cli.files import read_small

try:
    LEASE_SECONDS = float(os.environ.get("TRANSFORMER_CLI_LEASE_SECONDS", "120"))
except ValueError:
    LEASE_SECONDS = 120.0
"""Longer than network file systems keep a file's time in their caches."""
_BEATS_PER_LEASE = 6
_RELEASED = ".released"


@dataclass(frozen=True)
class Lease:
    """A generation of a task's lease."""

    task: Path
    """The path of its files, but for the generation."""
    generation: int

    @property
    def path(self) -> Path:
        """Path of the file while it is held."""
        return self.task.with_name(f"{self.task.name}.{self.generation}")

    @property
    def released_path(self) -> Path:
        """Path of the file that says that it was released."""
        return self.task.with_name(f"{self.path.name}{_RELEASED}")

    def is_lost(self) -> bool:
        """Return whether another worker has taken the task over."""
        return Lease(self.task, self.generation + 1).path.exists()

    def beat(self) -> None:
        """Show other workers that this one is alive."""
        with suppress(OSError):  # it is lost, or the file system is away for a moment
            os.utime(self.path)

    def release(self) -> None:
        """Let others take the task at once; the generation's own file stays, as a mark of it."""
        with suppress(OSError):
            self.released_path.touch()

    def has_ended(self) -> bool:
        """Return whether its holder has released it, or is known to be dead.

        Otherwise it may still be writing, for instance if it was stopped and goes on.
        """
        return self.released_path.exists() or _is_dead(self.path)


class LeaseBoard:
    """The leases of a sweep, as one worker sees them."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.directory = directory
        self._clock = clock
        self._seen: dict[Path, tuple[int, float]] = {}

    def claim(self, task: str) -> Lease | None:
        """Take a task, unless another worker holds it; this one must not hold it already."""
        newest = self._newest(self.directory / task)
        if newest.generation and not (newest.has_ended() or self._is_silent(newest.path)):
            return None
        return create_next(newest)

    def _newest(self, task: Path) -> Lease:
        """Return the newest lease of a task, of generation 0 if there was none."""
        names = (path.name for path in task.parent.glob(f"{glob.escape(task.name)}.*"))
        generations = (name[len(task.name) + 1 :].removesuffix(_RELEASED) for name in names)
        return Lease(task, max((int(each) for each in generations if each.isdecimal()), default=0))

    def _is_silent(self, path: Path) -> bool:
        """Return whether this process has seen no beat for a whole lease."""
        try:
            beat = path.stat().st_mtime_ns
        except OSError:
            return False  # it was released just now
        now = self._clock()
        known, since = self._seen.get(path, (None, now))
        if known != beat:
            self._seen[path] = beat, now
            return False
        return now - since > LEASE_SECONDS

    def has_active_workers(self) -> bool:
        """Return whether another worker seems to hold a task."""
        leases: dict[Path, Lease] = {}
        for path in self.directory.rglob("*"):
            name, _, generation = path.name.rpartition(".")
            if generation.isdecimal() and path.is_file():
                lease = Lease(path.with_name(name), int(generation))
                leases[lease.task] = max(leases.get(lease.task, lease), lease, key=_generation)
        return any(self._may_be_held(lease) for lease in leases.values())

    def _may_be_held(self, lease: Lease) -> bool:
        if lease.has_ended():
            return False
        # The time of a new file is by the clock that the lease's was: the file server's.
        with tempfile.NamedTemporaryFile(dir=self.directory) as new:
            now = Path(new.name).stat().st_mtime
        return now - lease.path.stat().st_mtime < LEASE_SECONDS


class Heartbeat:
    """A thread that touches the leases of this process."""

    def __init__(self, leases: Callable[[], list[Lease]]) -> None:
        self._leases = leases
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(LEASE_SECONDS / _BEATS_PER_LEASE):
            for lease in self._leases():
                lease.beat()


def _generation(lease: Lease) -> int:
    return lease.generation


def create_next(newest: Lease) -> Lease | None:
    """Create the lease of the next generation, unless another worker is faster."""
    lease = Lease(newest.task, newest.generation + 1)
    lease.path.parent.mkdir(parents=True, exist_ok=True)
    holder = {"host": socket.gethostname(), "machine": this_machine(), "process": os.getpid()}
    try:
        with lease.path.open("x", encoding="utf-8") as file:
            json.dump(holder, file)
    except FileExistsError:
        return None  # another worker was faster
    return lease


def this_machine() -> str:
    """Return what tells machines apart, and containers, where process numbers mean others."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def _is_dead(path: Path) -> bool:
    """Return whether a lease's holder was a process of this machine that is gone."""
    try:
        holder = json.loads(read_small(path))
        process, is_here = int(holder["process"]), holder["machine"] == this_machine()
        # We do not hold it, so a process that had our number before us did.
        return is_here and (process == os.getpid() or not psutil.pid_exists(process))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False
