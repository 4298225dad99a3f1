"""The process groups of a job on GPUs, as far as a CPU can tell."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import SINGLE_PROCESS, find_ranks
from transformer_cli.extensions.distributed.torchrun import ConnectedRanks, RanksError

GPU = torch.device("cuda", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the default group is made of; gloo then stands in for nccl, bound to the GPU as it."""
    asked: dict[str, Any] = {}
    initialise = dist.init_process_group

    def with_gloo(backend: str, device_id: torch.device, **others: Any) -> None:
        asked.update(backend=backend, device_id=device_id)
        initialise("cpu:gloo,cuda:gloo", **others)
        assert dist.group.WORLD is not None
        dist.group.WORLD.bound_device_id = device_id

    monkeypatch.setattr(dist, "init_process_group", with_gloo)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    yield asked
    if dist.is_initialized():
        dist.destroy_process_group()


def test_collectives_on_the_cpu_have_a_group_beside_one_that_is_bound_to_a_gpu(
    asked: dict[str, Any],
) -> None:
    group = ConnectedRanks()._connect(GPU)
    assert asked == {"backend": "cpu:gloo,cuda:nccl", "device_id": GPU}
    assert group.bound_device_id == GPU
    assert dist.get_backend(group) == "gloo"
    # Size 2 where it is asked what to do; the group's own size is 1.
    ranks = ConnectedRanks(size=2, group=group)
    ranks.barrier()
    assert ranks.sum([1.5, 2]) == [1.5, 2.0]


def test_out_of_memory_is_not_taken_for_a_lost_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **others: Any) -> None:
        raise dist.DistBackendError("Cuda failure 2 'out of memory'")

    monkeypatch.setattr(dist, "all_reduce", fail)
    with pytest.raises(dist.DistBackendError):
        ConnectedRanks(size=2).sum([1.0])


def test_mps_is_for_one_process() -> None:
    with pytest.raises(UsageError, match="`device` mps: works in one process"):
        ConnectedRanks(size=2).place(torch.device("mps"))


def test_torchrun_says_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert find_ranks() == ConnectedRanks(rank=1, size=4, local_rank=1, local_size=4)
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    assert find_ranks() == ConnectedRanks(rank=1, size=4, local_rank=1, local_size=2, machines=2)
    monkeypatch.delenv("RANK")
    assert find_ranks() == SINGLE_PROCESS


def test_a_lost_process_ends_the_others_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConnectedRanks, "_connect", lambda ranks, device: None)
    ranks = ConnectedRanks(size=2)
    with pytest.raises(RanksError, match="another process of this job"), ranks.init(GPU):
        raise dist.DistBackendError("Connection closed by peer")
    with pytest.raises(dist.DistBackendError), ranks.init(GPU):
        raise dist.DistBackendError("Cuda failure 2 'out of memory'")
    with pytest.raises(ValueError, match="ours"), ranks.init(GPU):
        raise ValueError("ours")
