"""The settings in the YAML file for ``--cluster``, which describes a Dask cluster."""

import re
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from transformer_cli.config.sections import Count, Section, setting

Name = Annotated[str, Field(min_length=1)]
_ADDRESS = re.compile(r"(tcp|tls|ucx|wss?)://.+:[0-9]+")
# The same as dask.utils.parse_bytes, but a number is required.
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)?(e[0-9]+)? *([kmgtp]i?)?b?", re.IGNORECASE)
_OPTIONS = "other arguments of Dask's class, passed unchanged"


class LocalCluster(Section):
    """A cluster of processes on this machine (distributed.LocalCluster)."""

    workers: Count = Field(description="processes")
    options: dict[str, Any] = setting({}, _OPTIONS)


class QueueCluster(Section):
    """A cluster of jobs of a batch system such as Slurm; each has one worker (dask-jobqueue)."""

    jobs: Count = Field(description="number of jobs")
    cores: Count = Field(description="cores per job")
    memory: Name = Field(description="memory per job, e.g. 16GB")
    gres: Name | None = setting(None, "slurm's --gres, e.g. gpu:1")
    walltime: Name | None = setting(None, "time limit per job, e.g. 08:00:00")
    queue: Name | None = setting(None, "queue, or partition")
    account: Name | None = setting(None, "account to charge")
    python: Name | None = setting(None, "Python there; null: the one here")
    options: dict[str, Any] = setting({}, _OPTIONS)

    @model_validator(mode="after")
    def _has_memory(self) -> Self:
        if not _MEMORY.fullmatch(self.memory):
            raise ValueError(f"memory: expected a size such as 16GB, found {self.memory!r}")
        return self


QUEUES = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
}
"""Maps the key of each batch system in the YAML file to its class in dask-jobqueue."""


class ClusterSettings(Section):
    """A cluster that is already running, or one that starts and ends with a command."""

    address: str | None = setting(None, "a running scheduler, e.g. tcp://HOST:8786")
    local: LocalCluster | None = setting(None, "processes on this machine")
    slurm: QueueCluster | None = setting(None, "jobs of Slurm")
    pbs: QueueCluster | None = setting(None, "jobs of PBS")
    sge: QueueCluster | None = setting(None, "jobs of Grid Engine")
    lsf: QueueCluster | None = setting(None, "jobs of LSF")
    htcondor: QueueCluster | None = setting(None, "jobs of HTCondor")

    @property
    def kind(self) -> str:
        return next(key for key, value in self if value is not None)

    @model_validator(mode="after")
    def _is_one_cluster(self) -> Self:
        given = [key for key, value in self if value is not None]
        if not given:
            _, *others = dict(self)
            raise ValueError(f"address: missing; give it, or one of {', '.join(others)}")
        if len(given) > 1:
            raise ValueError(f"{given[1]}: {given[0]} is also given; remove one of them")
        if self.address is not None and not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"address: expected e.g. tcp://HOST:8786, found {self.address!r}")
        settings = getattr(self, given[0])
        if isinstance(settings, QueueCluster) and settings.gres and given[0] != "slurm":
            raise ValueError(f"{given[0]}.gres: needs slurm; use options.job_extra_directives")
        return self
