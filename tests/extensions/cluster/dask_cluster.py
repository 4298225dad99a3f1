"""A Dask cluster of processes on the loopback, which can be killed, stopped, cut off and restarted.

    with DaskCluster(tmp_path) as cluster:
        first, second = cluster.start_worker(), cluster.start_worker()
        … cluster.address …
        first.kill()

Its processes are the test's: they end with it. None is held for lost before LOST_AFTER seconds.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import methodcaller
from pathlib import Path
from types import TracebackType
from typing import Self

import children
import psutil

LOST_AFTER = 3
"""Seconds without a sign of life after which a worker's tasks are given to others."""
PATIENCE = 600.0
_CONFIG = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{LOST_AFTER}s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",  # the least that it takes
    "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "False",
    # What is waited for is in the logs, which a cluster in the tests' process may have silenced:
    # a nanny leaves its workers' variables in the environment that it has itself.
    "DASK_LOGGING__DISTRIBUTED": "info",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}

CAN_CUT = shutil.which("ip") is not None and getattr(os, "geteuid", lambda: 1)() == 0
"""Whether a process can be put on a network of its own, which can be cut."""


class Member:
    """A process of the cluster, with all that it starts."""

    def __init__(self, command: Sequence[str], log: Path, directory: Path, says: str) -> None:
        """Start it, and wait until its log says so."""
        self.log = log
        with log.open("wb") as file:
            self.process = children.start(
                command, env={**os.environ, **_CONFIG}, cwd=directory, stdout=file, stderr=file
            )
        wait_until(
            lambda: says in log.read_text() or self.process.poll() is not None, self.describe
        )
        assert self.process.poll() is None, self.describe()
        self._stopped: list[psutil.Process] = []

    def describe(self) -> str:
        """Return what it has said."""
        return f"{self.log}:\n{self.log.read_text()}"

    def family(self) -> list[psutil.Process]:
        """Return the processes that it has started, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def kill(self) -> None:
        """Kill it alone, which the system tells its peers at once."""
        self.process.kill()
        self.process.wait()

    def stop(self, with_family: bool = False) -> None:
        """Stop it, alone or as a machine that is frozen with all on it, until ``go_on``."""
        family = self.family() if with_family else []
        self._stopped = [psutil.Process(self.process.pid), *family]
        for process in self._stopped:
            process.suspend()

    def go_on(self) -> None:
        """Have it go on; what it has started goes on first, before it can end that."""
        for process in reversed(self._stopped):
            with suppress(psutil.NoSuchProcess):
                process.resume()


class Worker(Member):
    """A worker; one that is ``apart`` is like another machine: on a network, with a name."""

    def __init__(
        self, name: str, directory: Path, port: int, apart: bool, options: Sequence[str]
    ) -> None:
        self.network = _Network() if apart else None
        inside = self.network.enter if self.network else ()
        host = self.network.host if self.network else "127.0.0.1"
        command = (sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://{host}:{port}")
        fixed = ("--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--name", name)
        local = directory / name
        local.mkdir()
        super().__init__(
            (*inside, *command, *fixed, "--local-directory", str(local), *options),
            directory / f"{name}.log",
            local,
            "Registered to:",
        )

    def cut(self) -> None:
        """Cut it off, so that nobody is told: nothing arrives any more, in either direction."""
        assert self.network is not None
        self.network.set("down")

    def mend(self) -> None:
        """Connect it again."""
        assert self.network is not None
        self.network.set("up")


class DaskCluster:
    """A scheduler and workers, in directories of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "cluster"
        self.directory.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[Worker] = []
        self.start_scheduler()

    def start_scheduler(self) -> None:
        """Start the scheduler, which knows nothing of an earlier one, on its port."""
        command = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard")
        self.scheduler = Member(
            (*command, "--host", "0.0.0.0", "--port", str(self.port)),
            self.directory / "scheduler.log",
            self.directory,
            "Scheduler at:",
        )

    def start_worker(self, *options: str, apart: bool = False) -> Worker:
        """Start a worker: one thread, and no nanny unless the options say ``--nanny``."""
        name = f"worker-{len(self.workers)}"
        nanny = () if "--nanny" in options else ("--no-nanny",)
        self.workers.append(Worker(name, self.directory, self.port, apart, (*nanny, *options)))
        return self.workers[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        """Kill all that runs, and say what each has said if the test has failed."""
        members = [self.scheduler, *self.workers]
        if kind is not None:
            for member in members:
                print(member.describe())
        children.end_all()
        for worker in self.workers:
            if worker.network is not None:
                worker.network.remove()


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Return the addresses on which a process and those that it has started can be reached."""
    family = [process, *process.children(recursive=True)]
    old = not hasattr(psutil.Process, "net_connections")  # before psutil 6
    find = methodcaller("connections" if old else "net_connections", "inet")
    sockets = [each for member in family for each in find(member)]
    return {(each.laddr.ip, each.laddr.port) for each in sockets if each.laddr and not each.raddr}


class _Network:
    """A network of one process, which reaches this machine as ``host``, and has a name there."""

    def __init__(self) -> None:
        number = random.SystemRandom().randrange(1 << 14)
        self.name = f"tcli{number}"
        high, low = divmod(number * 4, 256)
        self.host, inner = (f"10.{64 + high // 256}.{high % 256}.{low + each}" for each in (1, 2))
        naming = f'hostname {self.name}; exec "$@"'
        self.enter = (
            *("nsenter", f"--net=/run/netns/{self.name}"),
            *("unshare", "--uts", "sh", "-c", naming, "sh"),
        )
        _ip("netns", "add", self.name)
        _ip("link", "add", self.name, "type", "veth", "peer", "name", "out", "netns", self.name)
        _ip("address", "add", f"{self.host}/30", "dev", self.name)
        _ip("-n", self.name, "address", "add", f"{inner}/30", "dev", "out")
        _ip("-n", self.name, "link", "set", "lo", "up")
        _ip("-n", self.name, "link", "set", "out", "up")
        self.set("up")

    def set(self, state: str) -> None:
        _ip("link", "set", self.name, state)

    def remove(self) -> None:
        _ip("netns", "delete", self.name)


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True)


def wait_until(condition: Callable[[], object], describe: Callable[[], str]) -> None:
    """Wait until a condition holds, which it has to in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, describe()
        time.sleep(0.05)
