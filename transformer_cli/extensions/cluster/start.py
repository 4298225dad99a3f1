"""Starts a Dask cluster for one command. Other users can neither reach nor change it.

Each cluster gets its own certificate, and its processes talk only to processes that have it. Dask's
web servers ask for no certificate, so they are turned off.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from transformer_cli.base.errors import MissingExtraError, TransformerCliError, shorten_middle
from transformer_cli.base.locations import hide_credentials
from transformer_cli.base.packages import import_extra
from transformer_cli.extensions.cluster.settings import (
    QUEUES,
    ClusterSettings,
    LocalCluster,
    QueueCluster,
)
from transformer_cli.extensions.processes.spawning import block_sigint

HIDDEN_PREFIX = ".transformer-cli-"
"""The filename prefix of temporary files in directories that workers share."""
_NANNY = "distributed.nanny.pre-spawn-environ"
# For workers we start: this program reports their errors, and they share our stderr. Dask's malloc
# setting doubles the time of a training step, and its profiler takes 2 % of a core per worker.
_CONFIG = {
    "logging": {"distributed": "critical", "distributed.client": "critical"},
    f"{_NANNY}.DASK_LOGGING__DISTRIBUTED": "critical",
    f"{_NANNY}.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}
# Arguments of schedulers and workers that turn off first the dashboard and then the web server.
_NO_WEB = {"dashboard": False, "dashboard_address": "127.0.0.1:0", "preload": [__name__]}


class ClusterError(TransformerCliError):
    """A cluster that cannot be reached, or whose workers cannot do the work."""


def import_distributed() -> ModuleType:
    """Import ``distributed``, after setting our Dask settings, which its import reads."""
    import_extra("dask", "cluster", "--cluster").config.set(_CONFIG)
    return import_extra("distributed", "cluster", "--cluster")


@contextmanager
def start_cluster(settings: ClusterSettings) -> Iterator[Any]:
    """Start a cluster whose scheduler runs in this process.

    The cluster accepts only processes that have its certificate.
    """
    kind = settings.kind
    asked: LocalCluster | QueueCluster = getattr(settings, kind)
    with ExitStack() as stack:
        try:
            private = stack.enter_context(_private_directory(asked))
            cluster = stack.enter_context(_create(kind, asked, private))
            if isinstance(asked, QueueCluster):
                # Don't use scale, which submits jobs later, and only logs errors.
                for _ in range(asked.jobs):
                    cluster.worker_spec.update(cluster.new_worker_spec())
                cluster.sync(_wait_until_submitted, cluster)
        except MissingExtraError:
            raise
        except Exception as error:  # of any type, as options may have any value
            with suppress(AssertionError):  # Dask raises it for jobs that were not submitted
                stack.close()
            first: BaseException = error
            while first.__cause__ is not None:  # Dask's own error only says that something failed
                first = first.__cause__
            said = hide_credentials(" ".join(str(first).split())) or type(first).__name__
            reason = shorten_middle(said, 300)
            options = ", ".join(asked.options)
            given = f" with {kind}.options {options}" if options else ""
            raise ClusterError(f"--cluster: {kind} cannot be started{given}: {reason}") from error
        yield cluster


@contextmanager
def _private_directory(asked: LocalCluster | QueueCluster) -> Iterator[Path]:
    """Create a directory that no other user can open, for a cluster's own files.

    By default, Dask would use a directory in /tmp that any user may have made, and import modules
    from it. Ours is in the working directory, which other machines can see, if they are used.
    """
    where = None
    if isinstance(asked, QueueCluster):
        shared = asked.options.get("shared_temp_directory", ".")
        where = Path(os.path.expandvars(shared)).expanduser().absolute()
    made = TemporaryDirectory(prefix=HIDDEN_PREFIX, dir=where, ignore_cleanup_errors=True)
    with made as private:
        dask = import_extra("dask", "cluster", "--cluster")
        try:
            with dask.config.set({"temporary-directory": private}):
                yield Path(private)
        finally:  # another user might create the directory again after its removal
            sys.path[:] = [path for path in sys.path if not path.startswith(private)]


async def _wait_until_submitted(cluster: Any) -> None:
    await cluster


def _create(kind: str, asked: LocalCluster | QueueCluster, private: Path) -> Any:
    import_extra("cryptography", "cluster", f"--cluster with {kind}")
    distributed = import_distributed()
    security = distributed.Security.temporary()
    if isinstance(asked, QueueCluster):
        return _create_queue(kind, asked, _write_certificate(security, private), private)
    options = dict(asked.options)
    dashboard = {"dashboard_address": options.pop("dashboard_address", None)}
    scheduler = dashboard | options.pop("scheduler_kwargs", {})
    options = {
        "n_workers": asked.workers,
        "threads_per_worker": 1,
        "silence_logs": "CRITICAL",  # for workers that fail before they read _CONFIG
        "preload": _NO_WEB["preload"],
        **options,
        "scheduler_kwargs": _with_dashboard(scheduler),
        "security": security,
    }
    with block_sigint():  # also for the thread that starts workers
        return distributed.LocalCluster(**options)


def _create_queue(kind: str, jobs: QueueCluster, security: Any, private: Path) -> Any:
    jobqueue = import_extra("dask_jobqueue", "cluster", f"--cluster with {kind}")
    cluster_class = getattr(jobqueue, QUEUES[kind])
    named = {"walltime": jobs.walltime, "queue": jobs.queue, "account": jobs.account}
    options = {key: value for key, value in named.items() if value is not None} | jobs.options
    scheduler = _with_dashboard(options.pop("scheduler_options", {}))
    options |= {"scheduler_options": scheduler | {"protocol": "tls"}, "security": security}
    if jobs.gres is not None:
        given = options.get("job_extra_directives", [])
        options["job_extra_directives"] = [*given, f"--gres={jobs.gres}"]
    arguments = ["--nthreads", "1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    arguments += ["--preload", __name__, *options.pop("worker_extra_args", [])]
    cluster = cluster_class(
        cores=jobs.cores,
        memory=jobs.memory,
        processes=1,
        worker_extra_args=arguments,
        python=jobs.python,
        **{"local_directory": shlex.quote(str(private)), **options},
    )
    # Quote these names, as Dask does not in the script of a job.
    security = copy(security)
    for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
        setattr(security, name, shlex.quote(getattr(security, name)))
    cluster.new_spec["options"]["security"] = security
    return cluster


def _write_certificate(security: Any, private: Path) -> Any:
    """Write a certificate and its key to files; return a Dask ``Security`` that reads them."""
    certificate, key = private / "certificate.pem", private / "key.pem"
    certificate.write_text(security.tls_ca_file)
    key.touch(mode=0o600)
    key.write_text(security.tls_worker_key)
    arguments = {"require_encryption": True, "tls_ca_file": str(certificate)}
    for role in ("client", "scheduler", "worker"):
        arguments |= {f"tls_{role}_cert": str(certificate), f"tls_{role}_key": str(key)}
    return type(security)(**arguments)


def _with_dashboard(options: dict[str, Any]) -> dict[str, Any]:
    """Return a scheduler's options; if they ask for a dashboard, it is only on 127.0.0.1."""
    if (address := options.get("dashboard_address")) is None:
        return {**_NO_WEB, **options, "dashboard_address": _NO_WEB["dashboard_address"]}
    return {**options, "dashboard_address": f"127.0.0.1:{str(address).rpartition(':')[2]}"}


def dask_setup(server: Any) -> None:
    """Stop the web server of a scheduler or worker that preloads this module.

    Dask starts this server even without a dashboard.
    """
    server.http_server.stop()
