"""Numbers on a device that are read some steps later, so that the host does not wait for them."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

Label = TypeVar("Label")


class _Pending(NamedTuple, Generic[Label]):
    label: Label
    values: Tensor
    copied: torch.cuda.Event | None


class DeferredReads(Generic[Label]):
    """Values in the order in which they were added.

    Args:
        delay: how many later additions to wait for before values are read; 0 reads at once.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._pending: deque[_Pending[Label]] = deque()

    def append(self, label: Label, values: Float[Tensor, " value"]) -> None:
        """Start to copy ``values`` to the host."""
        on_gpu = values.device.type == "cuda"
        on_host = torch.empty_like(values, device="cpu", pin_memory=on_gpu)
        on_host.copy_(values, non_blocking=on_gpu)
        copied = None
        if on_gpu:
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record()
        self._pending.append(_Pending(label, on_host, copied))

    def read(self, read_all: bool = False) -> Iterator[tuple[Label, list[float]]]:
        """Yield the values that are old enough, with their labels; all of them on request."""
        while len(self._pending) > (0 if read_all else self._delay):
            label, values, copied = self._pending.popleft()
            if copied is not None:
                copied.synchronize()
            yield label, values.tolist()
