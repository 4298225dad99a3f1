"""Clusters that are started for a command: Dask's classes of them, and what these take."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from inspect import signature
from types import ModuleType
from typing import Any

from transformer_cli.child import block_sigint
from transformer_cli.config.cluster_schema import QUEUES, ClusterSettings, QueueCluster
from transformer_cli.config.setting_tree import Node, find_place, setting_error
from transformer_cli.errors import ClusterError, MissingExtraError, did_you_mean, shorten_middle
from transformer_cli.packages import import_extra

_NANNY = "distributed.nanny.pre-spawn-environ"
# Of workers that are started here, besides: what goes wrong is said by this program, and their
# stderr is ours; with Dask's setting of malloc, a step of training takes twice the time; and its
# profiler takes 2 % of a core for each worker.
_CONFIG = {
    "logging": {"distributed": "critical", "distributed.client": "critical"},
    f"{_NANNY}.DASK_LOGGING__DISTRIBUTED": "critical",
    f"{_NANNY}.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.worker.profile.enabled": False,
}


def import_distributed() -> ModuleType:
    """Import Dask's package for clusters, with our settings, which it reads as it is imported."""
    import_extra("dask", "cluster", "--cluster").config.set(_CONFIG)
    return import_extra("distributed", "cluster", "--cluster")


def check_options(settings: ClusterSettings, root: Node) -> None:
    """Check the names of the arguments for Dask, given in the file ``root``; raise ConfigError."""
    options = _options(settings)
    if not options:  # Dask need not be imported for it
        return
    classes = _find_classes(settings.kind)
    known = [name for each in classes for name in signature(each).parameters]
    for name in options:
        if name not in known:
            keys = (settings.kind, "options", name)
            hint = did_you_mean(name, known) or "remove it"
            problem = f"no argument of Dask's {classes[0].__name__}; {hint}"
            raise setting_error(find_place(root, keys), keys, problem)


def _options(settings: ClusterSettings) -> dict[str, Any]:
    return getattr(getattr(settings, settings.kind), "options", {})


def _find_classes(kind: str) -> tuple[Any, ...]:
    """Return the class of a kind of cluster, and those that it passes other arguments on to."""
    distributed = import_distributed()
    if kind == "local":
        return (
            distributed.LocalCluster,
            distributed.Nanny,
            distributed.Worker,
            distributed.core.Server,
        )
    if kind == "ssh":
        return distributed.SSHCluster, distributed.SpecCluster
    if kind == "kubernetes":
        operator = import_extra("dask_kubernetes.operator", None, "--cluster with kubernetes")
        return operator.KubeCluster, distributed.deploy.Cluster
    jobqueue = import_extra("dask_jobqueue", "cluster", f"--cluster with {kind}")
    cluster_class = getattr(jobqueue, QUEUES[kind])
    return cluster_class, jobqueue.JobQueueCluster, cluster_class.job_cls, jobqueue.core.Job


@contextmanager
def start_cluster(settings: ClusterSettings) -> Iterator[Any]:
    """Start a cluster with its scheduler in this process, or where its kind has it."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(_create(settings))
            jobs = getattr(settings, settings.kind)
            if isinstance(jobs, QueueCluster):
                # Not scale, which submits them later, and logs what goes wrong.
                for _ in range(jobs.jobs):
                    cluster.worker_spec.update(cluster.new_worker_spec())
                cluster.sync(_wait_until_submitted, cluster)
        except MissingExtraError:
            raise
        except Exception as error:  # of any kind, as options have any value
            with suppress(AssertionError):  # Dask's, of jobs that could not be submitted
                stack.close()
            first: BaseException = error
            while first.__cause__ is not None:  # Dask's own say that something failed
                first = first.__cause__
            reason = shorten_middle(" ".join(str(first).split()), 300) or type(first).__name__
            options = ", ".join(_options(settings))
            given = f" with {settings.kind}.options {options}" if options else ""
            problem = f"{settings.kind} cannot be started{given}: {reason}"
            raise ClusterError(f"--cluster: {problem}") from error
        yield cluster


async def _wait_until_submitted(cluster: Any) -> None:
    await cluster


def _create(settings: ClusterSettings) -> Any:
    cluster_class, *_ = _find_classes(settings.kind)
    if local := settings.local:
        options = {
            "n_workers": local.workers,
            "threads_per_worker": 1,
            "dashboard_address": ":0",
            "silence_logs": "CRITICAL",  # of workers that cannot start, where _CONFIG is not read
            "resources": dict(settings.resources),
        }
        with block_sigint():  # for the thread that starts workers, too
            return cluster_class(**options | local.options)
    if ssh := settings.ssh:
        import_extra("asyncssh", None, "--cluster with ssh")
        return cluster_class(
            [ssh.hosts[0], *ssh.hosts],
            worker_options={
                "nthreads": 1,
                "n_workers": ssh.workers,
                "resources": dict(settings.resources),
            },
            remote_python=ssh.python,
            **ssh.options,
        )
    if pods := settings.kubernetes:
        name = f"transformer-cli-{uuid.uuid4().hex[:8]}"
        return cluster_class(name=name, image=pods.image, n_workers=pods.workers, **pods.options)
    jobs = getattr(settings, settings.kind)
    named = {"walltime": jobs.walltime, "queue": jobs.queue, "account": jobs.account}
    options = {key: value for key, value in named.items() if value is not None} | jobs.options
    if jobs.gres is not None:
        given = options.get("job_extra_directives", [])
        options["job_extra_directives"] = [*given, f"--gres={jobs.gres}"]
    arguments = ["--nthreads", "1"]
    if settings.resources:
        arguments += ["--resources", format_resources(settings.resources)]
    return cluster_class(
        cores=jobs.cores,
        memory=jobs.memory,
        processes=1,
        worker_extra_args=[*arguments, *options.pop("worker_extra_args", [])],
        python=jobs.python,
        **{"scheduler_options": {"dashboard_address": ":0"}, **options},
    )


def format_resources(resources: Mapping[str, float]) -> str:
    """Return resources as the option of Dask's workers has them."""
    return ",".join(f"{name}={amount:g}" for name, amount in resources.items())
