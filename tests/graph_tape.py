"""A stand-in for CUDA graphs on a CPU: operations are recorded with their arguments, then replayed.

As in a graph, Python does not run again: numbers are those of the recording, and tensors are read
and written where they were. Operations that would wait for a GPU cannot be recorded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from synchronisations import watch_operations
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer_cli.model.device import GraphPool

Out = TypeVar("Out")


def capture_on_tape(pool: GraphPool, function: Callable[[], Out]) -> Callable[[], Out]:
    """Stand for ``GraphPool.capture``."""
    tape = _Tape()
    with watch_operations() as watched, tape:
        out = function()
    assert watched.synchronisations == []
    tape.undo()

    def replay() -> Out:
        tape.replay()
        return out

    return replay


class _Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations of its block, and what they write over."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls: list[tuple[OpOverload, Sequence[Any], Mapping[str, Any], Any]] = []
        self._before: list[tuple[Tensor, Tensor]] = []
        self._generator = torch.get_rng_state()

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self._before.extend((each, each.clone()) for each in _written(func, args, kwargs))
        result = func(*args, **kwargs)
        self._calls.append((func, args, kwargs, result))
        return result

    def undo(self) -> None:
        """Put back what was written over, and the generator: a capture runs nothing."""
        torch.set_rng_state(self._generator)
        with torch.no_grad():
            for tensor, before in reversed(self._before):
                tensor.copy_(before)

    def replay(self) -> None:
        """Run all operations again, and write their results where they were."""
        with torch.no_grad():
            for func, args, kwargs, recorded in self._calls:
                result = func(*args, **kwargs)
                for old, new in zip(_tensors(recorded), _tensors(result), strict=True):
                    # Views, and what is written in place, are there already.
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)


def _written(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    arguments = func._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, args, strict=False)}
    return [
        tensor
        for argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors({**given, **kwargs}.get(argument.name))
    ]


def _tensors(value: Any) -> list[Tensor]:
    return [each for each in tree_leaves(value) if isinstance(each, Tensor)]
