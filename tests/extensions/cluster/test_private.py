"""A cluster that is started for a command answers nobody who lacks the run's certificate."""

import os
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from extensions.cluster.dask_cluster import listening
from transformer_cli.extensions.cluster.cluster import open_cluster, read_cluster
from transformer_cli.extensions.cluster.settings import ClusterSettings

NOBODY = 65534
_ALERT = b"\x15"
"""The first byte of what a TLS server sends instead of an answer."""


def ask(port: int, tls: ssl.SSLContext | None) -> bytes:
    """Return what a server answers, to a request that Dask's and web servers both answer."""
    try:
        with closing(socket.create_connection(("127.0.0.1", port), 20)) as raw:
            connection = raw if tls is None else tls.wrap_socket(raw)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return connection.recv(100)
    except TimeoutError:
        return b"waits for more"
    except OSError:  # the server has hung up
        return b""


def attack(pipe: Connection, certificate: Path) -> None:
    """As another user, ask each port, with no certificate and with a forged one."""
    without = ssl.create_default_context()
    without.check_hostname, without.verify_mode = False, ssl.CERT_NONE
    forged = ssl.create_default_context()
    forged.check_hostname, forged.verify_mode = False, ssl.CERT_NONE
    forged.load_cert_chain(certificate)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    ports: list[int] = pipe.recv()
    ways = {"no TLS": None, "no certificate": without, "a forged certificate": forged}
    answers = [(port, way, ask(port, tls)) for port in ports for way, tls in ways.items()]
    pipe.send([each for each in answers if each[2] and not each[2].startswith(_ALERT)])


@pytest.fixture
def attacker(tmp_path: Path) -> Iterator[Connection]:
    """A process of another user, who has made a certificate like the run's."""
    security = pytest.importorskip("distributed.security").Security.temporary()
    certificate = tmp_path / "forged.pem"
    certificate.write_text(security.tls_client_key + security.tls_client_cert)
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(target=attack, args=(theirs, certificate))
    process.start()
    theirs.close()
    yield ours
    process.kill()  # it waits for ports if the test has failed
    process.join()


def local_cluster(directory: Path, options: str) -> ClusterSettings:
    file = directory / "cluster.yaml"
    file.write_text(f"local: {{workers: 2, options: {options}}}\n")
    return read_cluster(str(file))


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can be another")
def test_another_user_reaches_no_port_of_a_local_cluster(
    tmp_path: Path, attacker: Connection
) -> None:
    said: list[str] = []
    before = listening(psutil.Process())
    with open_cluster(local_cluster(tmp_path, "{}"), said.append) as cluster:
        assert cluster.submit(os.getpid).result(60) != os.getpid()
        addresses = listening(psutil.Process()) - before
        attacker.send(sorted(port for _, port in addresses))
        assert attacker.recv() == []
    assert len(addresses) == 5  # the scheduler, two workers, and a nanny for each
    assert {host for host, _ in addresses} == {"127.0.0.1"}
    assert said == []


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "options",
    ["{dashboard_address: '0.0.0.0:0'}", "{scheduler_kwargs: {dashboard_address: '0.0.0.0:0'}}"],
)
def test_a_dashboard_is_only_for_this_machine(tmp_path: Path, options: str) -> None:
    before = listening(psutil.Process())
    with open_cluster(local_cluster(tmp_path, options), print):
        addresses = listening(psutil.Process()) - before
    assert len(addresses) == 6
    assert {host for host, _ in addresses} == {"127.0.0.1"}


def _find_scratch() -> Path:
    from distributed import get_worker

    return Path(get_worker().local_directory)


def test_nobody_else_can_put_modules_where_dask_imports_them(tmp_path: Path) -> None:
    """Dask looks for modules in its directories, first of all."""
    with open_cluster(local_cluster(tmp_path, "{}"), print) as cluster:
        (scratch,) = {cluster.submit(_find_scratch).result(60).parent}
        imported = [path for path in sys.path if "dask-scratch-space" in path]
        assert imported
        assert all(Path(path).is_relative_to(scratch) for path in imported)
        assert stat.S_IMODE(scratch.parent.stat().st_mode) == 0o700
    assert not scratch.parent.exists()
    assert not set(imported) & set(sys.path)
