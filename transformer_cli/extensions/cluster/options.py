"""The option --cluster, which lets a Dask cluster do a command's work."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transformer_cli.base.errors import UsageError
from transformer_cli.base.locations import is_url
from transformer_cli.base.messages import log
from transformer_cli.base.packages import lazy_imports
from transformer_cli.cli.declaring import ExtraOptions, option

with lazy_imports():
    from transformer_cli.extensions.cluster import cluster as clusters, settings as cluster_schema

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from transformer_cli.base.workers import OpenExecutor


@dataclass(frozen=True)
class ClusterOptions(ExtraOptions):
    """The option ``--cluster``, which names the Dask cluster to use."""

    heading = "Hardware"
    cluster: Annotated[
        str | None, option("ADDRESS|FILE", "Dask cluster to use: tcp://HOST:8786, or a YAML file.")
    ] = None

    def fingerprint(self) -> dict[str, str]:
        """Return an empty dict, because the output does not depend on the cluster."""
        return {}


def find_cluster(asked: str, place: Path) -> "OpenExecutor":
    """Return a function that opens the named cluster, whose workers must see the path ``place``."""
    return partial(_open, clusters.read_cluster(asked), place)


@contextmanager
def _open(settings: "cluster_schema.ClusterSettings", place: Path) -> Iterator["Executor"]:
    with clusters.open_cluster(settings, log) as executor:
        if not is_url(place):
            place = place.absolute()
            executor.check_shared(next(each for each in (place, *place.parents) if each.is_dir()))
        yield executor


@dataclass(frozen=True)
class TrainClusterOptions(ClusterOptions):
    """The option ``--cluster`` of ``train``, for a cluster that prepares the training text."""

    about = "With --cluster, the cluster prepares the text; this machine trains the model."

    def check(self, given: Any) -> None:
        if self.cluster is not None and given.dry_run:
            problem = "does not work with --dry-run, which writes only to this machine's disk"
            raise UsageError(f"--cluster: {problem}")


@dataclass(frozen=True)
class TranslateClusterOptions(ClusterOptions):
    """The option ``--cluster`` of ``translate``, for a cluster that translates many files."""

    about = "With --cluster and several files, each worker translates one file at a time."

    def check(self, given: Any) -> None:
        if self.cluster is not None:
            problem = "translates many files; name a directory or a pattern with -i"
            raise UsageError(f"translate: --cluster {problem}")

    def check_one(self, given: Any) -> None:
        """Accept --cluster for each of many files; ``check`` refuses it only for a single file."""
