"""What --cluster accepts, and the line that says why it does not."""

from pathlib import Path

import pytest

from transformer_cli.base.errors import ConfigError, TransformerCliError, UsageError
from transformer_cli.extensions.cluster.cluster import read_cluster


def test_an_address_is_a_cluster() -> None:
    assert read_cluster("tcp://node1:8786").address == "tcp://node1:8786"
    assert read_cluster("tls://[::1]:8786").kind == "address"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("local: {workers: 2}\naddress: tcp://a:1\n", "1: local: address is also given"),
        ("local: null\n", " address: missing; give it, or one of local, slurm"),
        ("local: {worker: 2}\n", "1: local.worker: unknown key; did you mean 'workers'?"),
        ("local: {}\n", "1: local.workers: missing (processes)"),
        (
            "local: {workers: two}\n",
            "1: local.workers: expected an integer, found the text 'two'",
        ),
        ("slurm: {jobs: 2, cores: 8}\n", "1: slurm.memory: missing (memory per job, e.g. 16GB)"),
        ("pbs: {jobs: 2, cores: 8, memory: 8GB, gres: gpu}\n", "1: pbs.gres: needs slurm"),
        *(
            (
                f"slurm: {{jobs: 2, cores: 8, memory: {wrong}}}\n",
                f"1: slurm.memory: expected a size such as 16GB, found '{wrong}'",
            )
            for wrong in ("lots", "GB", "16 gigs", "1.2.3GB")
        ),
        ("address: node1\n", "1: address: expected e.g. tcp://HOST:8786"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_cluster(str(file))
    assert str(error.value).startswith(f"{file.as_posix()}:{message}")
    assert not error.value.others


def test_an_address_without_its_protocol() -> None:
    with pytest.raises(UsageError, match="did you mean 'tcp://node1:8786'"):
        read_cluster("node1:8786")


@pytest.mark.parametrize("given", ["tcp://node1", "http://node1:8786", "nowhere.yaml"])
def test_neither_an_address_nor_a_file(given: str) -> None:
    with pytest.raises(TransformerCliError, match="; give the") as error:
        read_cluster(given)
    assert error.value.exit_code == 2
