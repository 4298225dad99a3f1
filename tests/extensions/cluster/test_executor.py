"""Calls on a Dask cluster end with the same result, whatever is lost on the way."""

import os
import socket
import stat
import time
from pathlib import Path

import psutil
import pytest

from extensions.cluster.dask_cluster import DaskCluster, listening, wait_until
from transformer_cli.base.errors import CorpusError, WorkerError
from transformer_cli.extensions.cluster import cluster as clusters
from transformer_cli.extensions.cluster.cluster import ClusterExecutor, open_cluster, read_cluster
from transformer_cli.extensions.cluster.start import ClusterError


def _note_and_wait(directory: Path, name: str) -> str:
    """Say that a call has begun, and end when there is a file of its name."""
    (directory / f"{name}-{os.getpid()}").touch()
    while not (directory / name).exists():
        time.sleep(0.05)
    return name


@pytest.fixture(autouse=True)
def _workers_import_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def _fail() -> None:
    raise CorpusError("train.de:7: not UTF-8")


def _die() -> None:
    os._exit(1)


def test_what_is_lost_is_done_again(tmp_path: Path) -> None:
    said: list[str] = []
    with DaskCluster(tmp_path) as dask:
        first = dask.start_worker()
        with open_cluster(read_cluster(dask.address), said.append) as cluster:
            assert cluster.num_workers == 1
            cluster.check_shared(tmp_path)
            with pytest.raises(CorpusError, match=r"train\.de:7"):
                cluster.submit(_fail).result()
            call = cluster.submit(_note_and_wait, tmp_path, "killed")
            wait_until(lambda: [*tmp_path.glob("killed-*")], first.describe)
            dask.start_worker()
            first.kill()
            (tmp_path / "killed").touch()
            assert call.result(60) == "killed"
            call = cluster.submit(_note_and_wait, tmp_path, "restarted")
            wait_until(lambda: [*tmp_path.glob("restarted-*")], first.describe)
            dask.scheduler.kill()
            dask.start_scheduler()
            dask.start_worker()
            (tmp_path / "restarted").touch()
            assert call.result(60) == "restarted"
    assert len([*tmp_path.glob("killed-*")]) == len([*tmp_path.glob("restarted-*")]) == 2
    trust, *waits = said
    assert trust.startswith(f"{dask.address} uses no certificates: anyone who can connect to it")
    assert waits in ([], ["the cluster works again"]) or "waiting" in waits[0]


@pytest.mark.long
def test_what_kills_every_worker_is_given_up(tmp_path: Path) -> None:
    with DaskCluster(tmp_path) as dask:
        dask.start_worker("--nanny")
        with (
            open_cluster(read_cluster(dask.address), print) as cluster,
            pytest.raises(WorkerError, match="died, one after another"),
        ):
            cluster.submit(_die).result(120)


@pytest.mark.parametrize("place", ["127.0.0.1:9", "no..host:8786"])
def test_nobody_answers(place: str) -> None:
    with (
        pytest.raises(
            ClusterError, match=r"no scheduler answers .*; start one with dask scheduler"
        ),
        open_cluster(read_cluster(f"tcp://{place}"), print),
    ):
        pass


def test_what_answers_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = read_cluster(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ClusterError, match="no scheduler answers"), open_cluster(settings, str):
            pass


@pytest.mark.parametrize("refusal", ["no such partition", None])
def test_jobs_that_cannot_be_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str | None
) -> None:
    if refusal is not None:
        (tmp_path / "sbatch").write_text(f"#!/bin/sh\necho {refusal} >&2\nexit 1\n")
        (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    file = tmp_path / "cluster.yaml"
    file.write_text("slurm: {jobs: 2, cores: 1, memory: 1GB}")
    expected = f"slurm cannot be started: .*{refusal or 'sbatch'}"
    with pytest.raises(ClusterError, match=expected), open_cluster(read_cluster(str(file)), str):
        pass


@pytest.mark.long
@pytest.mark.parametrize("option", ["lifetime", "death_timeout"])  # of the worker, of its nanny
def test_arguments_that_dask_refuses_are_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"local: {{workers: 1, options: {{{option}: soon}}}}\n")
    expected = f"local cannot be started with local.options {option}: .*Invalid time unit: soon"
    with pytest.raises(ClusterError, match=expected), open_cluster(read_cluster(str(file)), str):
        pass
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "local: {workers: 2, options: {bogus: 1}}\n",
        "slurm: {jobs: 2, cores: 8, memory: 8GB, options: {bogus: 1}}\n",
    ],
)
def test_arguments_that_dask_does_not_have_are_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    expected = "cannot be started with (local|slurm).options bogus: .*argument 'bogus'"
    with pytest.raises(ClusterError, match=expected), open_cluster(read_cluster(str(file)), str):
        pass


_SBATCH = """#!/bin/sh
# Slurm's, of one machine: starts the script, and says its number.
echo "$@" >> {log}; grep -- '#SBATCH' "$1" >> {log}
cp "$1" {directory}/job.sh
sh {directory}/job.sh > {directory}/job.log 2>&1 < /dev/null &
echo $!
"""


@pytest.mark.long
def test_jobs_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, commands = tmp_path / "log", tmp_path / "bin"
    commands.mkdir()
    (commands / "sbatch").write_text(_SBATCH.format(log=log, directory=tmp_path))
    (commands / "scancel").write_text('#!/bin/sh\nkill "$@"\n')
    for command in commands.iterdir():
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    shared = tmp_path / "shared directory"
    shared.mkdir()
    monkeypatch.chdir(shared)
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "slurm: {jobs: 1, cores: 2, memory: 2GB, gres: 'gpu:1', walltime: '01:00:00'}\n"
    )

    def work(cluster: ClusterExecutor) -> int:
        return cluster.submit(os.getpid).result(60)

    with open_cluster(read_cluster(str(file)), print) as cluster:
        assert (worker := work(cluster)) != os.getpid()
        assert len({port for _, port in listening(psutil.Process(worker))}) == 1  # no web server
        (key,) = shared.rglob("key.pem")
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        secret = key.read_text().splitlines()[1]
    assert secret not in (tmp_path / "job.sh").read_text()
    assert " tls://" in (tmp_path / "job.sh").read_text()
    assert not [*shared.iterdir()]
    directives = log.read_text()
    for wanted in ("--gres=gpu:1", "-t 01:00:00", "--cpus-per-task=2", "--mem=2G"):
        assert wanted in directives
