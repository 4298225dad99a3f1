"""The 'meta' device as a stand-in for a GPU.

It is another device than the CPU, so code takes the branches that a GPU takes, and it has no
values, so whatever brings one to the host raises. Some of its operators take tensors of two
devices, which a GPU's would not; the fixture refuses those too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer_cli.data.batches import Batch
from transformer_cli.training import loss

GPU = torch.device("meta")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """The stand-in, known to autocast and to settings by device; it refuses the CPU's tensors."""
    autocast = torch.autocast
    monkeypatch.setattr(
        torch, "autocast", lambda device, *rest, **others: autocast("cpu", *rest, **others)
    )
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)
    monkeypatch.setitem(loss._CHUNK_ELEMENTS, "meta", loss._CHUNK_ELEMENTS["cuda"])
    with _OneDevice():  # type: ignore[no-untyped-call]
        yield GPU


def to_gpu(batch: Batch) -> Batch:
    """Copy a batch to the stand-in, which has no pinned memory."""
    return replace(batch, ids=batch.ids.to(GPU))


class _OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuse operations on tensors of two devices but copies between them."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket is not torch.ops.aten.copy_:
            _check(func, tree_leaves((args, kwargs)))
        return func(*args, **kwargs)


def _check(func: OpOverload, values: Iterable[object]) -> None:
    # A scalar on the CPU is a number to a GPU.
    devices = {each.device.type for each in values if isinstance(each, Tensor) and each.dim()}
    assert len(devices) <= 1, f"{func} on tensors of {sorted(devices)}"
