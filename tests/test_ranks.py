"""The process groups of a job on GPUs, as far as a CPU can tell."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist

from transformer_cli.base.ranks import Ranks

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
    group = Ranks()._connect(GPU)
    assert asked == {"backend": "cpu:gloo,cuda:nccl", "device_id": GPU}
    assert group.bound_device_id == GPU
    assert dist.get_backend(group) == "gloo"
    # Size 2 where it is asked what to do; the group's own size is 1.
    ranks = Ranks(size=2, group=group)
    ranks.barrier()
    assert ranks.sum([1.5, 2]) == [1.5, 2.0]


def test_out_of_memory_is_not_taken_for_a_lost_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **others: Any) -> None:
        raise dist.DistBackendError("Cuda failure 2 'out of memory'")

    monkeypatch.setattr(dist, "all_reduce", fail)
    with pytest.raises(dist.DistBackendError):
        Ranks(size=2).sum([1.0])
