"""Work on other machines: a Dask cluster as an executor of ``concurrent.futures``.

Other code submits functions to an executor, and does not know whether they run in processes on this
machine or on a cluster. Dask is only imported when a user asks for a cluster.
"""

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from platform import python_version
from threading import Event, Thread
from typing import Any, TypeVar

from transformer_cli.base.errors import UsageError, WorkerError
from transformer_cli.base.packages import __version__
from transformer_cli.base.workers import count_cores
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import read_mapping
from transformer_cli.extensions.cluster.settings import ClusterSettings
from transformer_cli.extensions.cluster.start import (
    HIDDEN_PREFIX,
    ClusterError,
    import_distributed,
    start_cluster,
)
from transformer_cli.inference.engine import describe_versions

T = TypeVar("T")
_CONNECT_SECONDS = 10
_RECONNECT_SECONDS = 600
"""How long a command waits for a scheduler that it can no longer reach."""
_POLL_SECONDS = 0.1
_LOOK_SECONDS = 5.0  # between checks of the scheduler and the workers
# The packages that determine the output, or whether a task can be read at all.
_COMPARED = ("torch", "numpy", "sentencepiece", "tokenizers", "ctranslate2", "distributed")


def read_cluster(given: str) -> ClusterSettings:
    """Read the value of ``--cluster``: a scheduler's address, or a YAML file with the settings."""
    if re.fullmatch(r"[\w.-]+:[0-9]+", given):
        raise UsageError(f"--cluster {given}: is not a file; did you mean 'tcp://{given}'?")
    if not re.match(r"\w+://", given):
        return validate_as(ClusterSettings, read_mapping(Path(given), "address, local or slurm"))
    try:
        return ClusterSettings(address=given)
    except ValueError:
        raise UsageError(
            f"--cluster {given}: is not an address such as tcp://HOST:8786; give the address that "
            "dask scheduler prints, or a YAML file"
        ) from None


class ClusterExecutor(Executor):
    """An executor that runs calls on a Dask cluster, and repeats calls whose worker was lost.

    Functions, arguments and results are sent pickled. A call may run twice, even at the same time,
    because a worker that was cut off does not know that another one has taken over its task.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._closed = Event()
        places = list(self.run_everywhere(_describe_host).values())
        # Jobs of a batch system have their own cores on a shared host.
        shares = [place[1] // places.count(place) for place in places]
        # There may be no shares if the only worker was lost meanwhile.
        self.threads = max(1, min(shares, default=1))
        """The number of cores per worker, if all workers on a machine get equally many."""

    @property
    def num_workers(self) -> int:
        return len(self._client.scheduler_info(n_workers=-1)["workers"])

    def run_everywhere(
        self, function: Callable[[], T], and_scheduler: bool = False
    ) -> dict[str, T]:
        """Call a function on all workers, or also on the scheduler; return results by name."""
        try:
            found = self._client.run(function)
            results = {f"worker {name}": result for name, result in found.items()}
            if and_scheduler:  # it unpickles submitted calls too
                results["the scheduler"] = self._client.run_on_scheduler(function)
        except Exception as error:
            missing = re.search("No module named '[^']*'", str(error))
            if missing is None:  # Dask may report it in an exception of its own
                raise
            raise ClusterError(
                f"--cluster: {missing[0]} on a worker or on the scheduler's machine; install the "
                "same packages there as here"
            ) from error
        return results

    def check_shared(self, directory: Path) -> None:
        """Raise ClusterError unless all workers can see ``directory``, which is on this machine."""
        mark = directory.absolute() / f"{HIDDEN_PREFIX}{uuid.uuid4().hex}"
        mark.touch()
        try:
            blind = [name for name, sees in self.run_everywhere(mark.exists).items() if not sees]
        finally:
            mark.unlink(missing_ok=True)
        if blind:
            raise ClusterError(
                f"{directory}: {blind[0]} cannot see it; use a directory on a disk that all "
                "workers share under the same path"
            )

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Submit a call, as ``Executor`` does. The returned future cannot be cancelled."""
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()

        def start() -> None:
            task = self._client.submit(fn, *args, pure=False, **kwargs)
            task.add_done_callback(end)

        def end(task: Any) -> None:
            try:
                if task.status == "finished":
                    result.set_result(task.result())
                elif task.status == "error":
                    result.set_exception(_explain(task.exception()))
                else:  # lost with the scheduler, or by a worker that cannot be reached
                    self._wait_for_scheduler()
                    start()
            except BaseException as error:
                result.set_exception(error)

        start()
        return result

    def _wait_for_scheduler(self) -> None:
        # Dask's client drops everything it receives before it is connected again.
        while self._client.status == "connecting" and not self._closed.is_set():
            time.sleep(_POLL_SECONDS)
        if self._client.status != "running":
            raise ClusterError(
                "the cluster's scheduler has ended, or could not be reached for "
                f"{_RECONNECT_SECONDS // 60} minutes; restart it, then repeat the command to resume"
            )

    def watch(self, say: Callable[[str], object]) -> None:
        """Call ``say`` when the cluster cannot work, and when it can again, until ``shutdown``."""
        was = ""
        while not self._closed.wait(_LOOK_SECONDS):
            with suppress(Exception):  # Dask's, when the connection is lost or closed
                now = self._find_trouble()
                if now != was:
                    say(now or "the cluster works again")
                was = now

    def _find_trouble(self) -> str:
        if self._client.status == "connecting":
            minutes = _RECONNECT_SECONDS // 60
            return f"the scheduler cannot be reached; waiting {minutes} minutes for it"
        return "" if self.num_workers else "no worker is left; waiting for one"

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed.set()


def _explain(error: BaseException) -> BaseException:
    if type(error).__name__ == "KilledWorker":
        return WorkerError(
            "the workers that ran this task died, one after another (out of memory?); "
            "see their logs"
        )
    return error


# --- connecting -----------------------------------------------------------------------------------


@contextmanager
def open_cluster(
    settings: ClusterSettings, say: Callable[[str], object]
) -> Iterator[ClusterExecutor]:
    """Connect to a cluster, or start one for the block; ``say`` gets the reasons for waiting."""
    distributed = import_distributed()
    with ExitStack() as stack:
        where: Any = settings.address
        if where is None:
            where = stack.enter_context(start_cluster(settings))
        else:
            _check_reachable(where)
            if re.match("(tcp|ucx|ws):", where):
                say(
                    f"{where} uses no certificates: anyone who can connect to it can run code as "
                    "you, here and on its workers; use tls:// unless its network is private"
                )
        try:
            client = distributed.Client(where, timeout=_RECONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(f"--cluster {settings.address}: cannot connect: {error}") from error
        stack.enter_context(client)
        _wait_for_worker(client, say)
        executor = ClusterExecutor(client)
        _compare_environments(executor, say)
        Thread(target=executor.watch, args=(say,), daemon=True).start()
        with executor:
            yield executor


def _check_reachable(address: str) -> None:
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS) as scheduler:
            # A scheduler sends data first. Dask would wait for other servers as if they were down.
            if kind == "tcp" and not scheduler.recv(1):
                raise ConnectionError("the connection was closed")
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid hostname
        reason = getattr(error, "strerror", None) or error
        raise ClusterError(
            f"--cluster {address}: no scheduler answers ({reason}); start one with dask scheduler, "
            "or correct the address"
        ) from error


def _wait_for_worker(client: Any, say: Callable[[str], object]) -> None:
    with suppress(TimeoutError):
        client.wait_for_workers(1, timeout=2)
        return
    say(f"waiting for a worker of {client.scheduler.address}")
    client.wait_for_workers(1)


# --- what is called on workers --------------------------------------------------------------------


def _describe_host() -> tuple[str, int, list[int]]:
    cores = sorted(getattr(os, "sched_getaffinity", lambda _: ())(0))
    return socket.gethostname(), count_cores(), cores


def _describe_environment() -> dict[str, str]:
    ours = {"transformer-cli": __version__, "Python": python_version()}
    return ours | describe_versions(*_COMPARED)


def _compare_environments(executor: ClusterExecutor, say: Callable[[str], object]) -> None:
    """Report a worker with other packages; raise ClusterError if its transformer-cli differs."""
    ours = _describe_environment()
    found = executor.run_everywhere(_describe_environment, and_scheduler=True)
    for worker, theirs in found.items():
        differing = [
            f"{name} {theirs.get(name, 'missing')} (here {ours.get(name, 'missing')})"
            for name in {**ours, **theirs}
            if ours.get(name) != theirs.get(name)
        ]
        if ours["transformer-cli"] != theirs["transformer-cli"]:
            raise ClusterError(f"{worker} has {differing[0]}; install the same version")
        if differing:
            say(f"{worker} differs: {', '.join(differing)}; results may differ too")
            return
