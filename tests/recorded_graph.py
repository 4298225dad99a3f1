"""A CUDA graph's stand-in on a CPU: the operations of a function, replayed on the same tensors.

What is no tensor is what it was when the function was recorded, as in a CUDA graph; so a test that
changes something and replays shows whether the function reads it from a tensor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class _Call:
    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    computed: list[tuple[int, Tensor]]
    """Results in memory of their own, with their places among all; the others are views."""

    def replay(self) -> None:
        results = tree_leaves(self.func(*self.args, **self.kwargs))
        for place, result in self.computed:
            result.copy_(results[place])


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self._own: set[int] = set()  # memory of results
        self._before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self._keep_what_changes(func, args, kwargs)
        out = func(*args, **kwargs)
        given = {_memory(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        computed = [
            (place, result)
            for place, result in enumerate(tree_leaves(out))
            if isinstance(result, Tensor) and _memory(result) not in given
        ]
        self._own |= {_memory(result) for _, result in computed}
        self.calls.append(_Call(func, args, kwargs, computed))
        return out

    def _keep_what_changes(
        self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            changed = args[place] if place < len(args) else kwargs.get(argument.name)
            for each in tree_leaves(changed):
                memory = _memory(each)
                if memory not in self._own and memory not in self._before:
                    whole = each.detach().as_strided(
                        (each.untyped_storage().size() // each.itemsize,), (1,), 0
                    )
                    self._before[memory] = whole, whole.clone()

    def restore(self) -> None:
        for tensor, before in self._before.values():
            tensor.copy_(before)


def _memory(tensor: Tensor) -> int:
    return id(tensor) if tensor.is_mkldnn else tensor.untyped_storage().data_ptr()


def record(function: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """Do what ``graphs.capture`` does; recording changes no tensor that was there before."""
    with _Recorder() as recorder:
        out = function()
    recorder.restore()

    def replay() -> Any:
        for call in recorder.calls:
            call.replay()
        return out

    return replay
