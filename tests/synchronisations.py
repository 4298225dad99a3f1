"""What a block of code asks of the device: its operations, and those that wait for a GPU.

Proven on the CPU: an operation is taken for one that waits if it would wait on a GPU, because it
brings a value to the host, or takes a list from there. And it watches for tensors that would be
made on the CPU whatever the model's device.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import transformer_cli

_PACKAGE = str(Path(transformer_cli.__file__).parent)

# They bring values to the host: to Python, or as the size of their result.
_WAITING = {
    "_local_scalar_dense",  # item, bool, int, float, f"{tensor:.2f}"
    "_unique",
    "_unique2",
    "bincount",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
}
# Methods and functions that never reach the dispatcher on a CPU.
_TO_HOST = {"tolist", "cpu", "numpy", "__array__"}
_FROM_HOST = {"tensor", "as_tensor", "new_tensor"}
# They make a tensor from none.
_FACTORIES = {
    "arange",
    "as_tensor",
    "empty",
    "empty_strided",
    "eye",
    "full",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
}
# They allocate, or give a view, at most.
_FREE = {
    "_unsafe_view",
    "empty",
    "empty_like",
    "empty_strided",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
}


@dataclass
class Watched:
    """What was dispatched."""

    operations: Counter[str] = field(default_factory=Counter)
    """All of them, backward too, by name: "aten.add.Tensor"."""
    launches: int = 0
    """Those that compute something: on a GPU each is one kernel, or a few."""
    synchronisations: list[str] = field(default_factory=list)
    """Those that wait, and what called them: "tolist in training/trainer.py:Trainer._update"."""
    unplaced: list[str] = field(default_factory=list)
    """Tensors made on the default device, so: "arange in model/embeddings.py:sinusoids"."""


@contextmanager
def watch_operations() -> Iterator[Watched]:
    """Watch every operation of the block."""
    watched = Watched()
    with _WatchFunctions(watched), _WatchOperators(watched):
        yield watched


class _WatchFunctions(TorchFunctionMode):
    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self._watched = watched

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _FACTORIES and kwargs.get("device") is None:
            self._watched.unplaced.append(f"{name} in {_find_caller()}")
        if name in _TO_HOST | _FROM_HOST:
            self._watched.synchronisations.append(f"{name} in {_find_caller()}")
        elif name in ("__getitem__", "__setitem__") and _holds_list(args[1]):
            self._watched.synchronisations.append(f"index by list in {_find_caller()}")
        elif name == "__setitem__" and _copies_number(*args):
            self._watched.synchronisations.append(f"assigned number in {_find_caller()}")
        return func(*args, **kwargs)


class _WatchOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, watched: Watched) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watched = watched

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        # Composite operators get here whole in inference mode, and in parts outside it.
        with self:
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        result = func(*args, **kwargs)
        self._watched.operations[str(func)] += 1
        if not (func.is_view or func.namespace != "aten" or _name(func) in _FREE):
            self._watched.launches += 1
        if _waits(func, args, kwargs, result):
            self._watched.synchronisations.append(f"{_name(func)} in {_find_caller()}")
        return result


def _name(func: OpOverload) -> str:
    return str(func.overloadpacket.__name__)


def _waits(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> bool:
    name = _name(func)
    if name in ("index", "index_put", "index_put_"):
        return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    if name == "repeat_interleave":
        return func._overloadname == "Tensor" and kwargs.get("output_size") is None
    if name == "_to_copy":
        return bool(args[0].device != result.device and not kwargs.get("non_blocking", False))
    if name == "copy_":
        asynchronous = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        return bool(args[0].device != args[1].device and not asynchronous)
    return name in _WAITING


def _copies_number(tensor: torch.Tensor, index: Any, value: object) -> bool:
    """Return whether torch copies a number from the host, as a tensor, instead of filling."""
    return isinstance(value, int | float) and tensor[index].dim() == 0


def _holds_list(index: object) -> bool:
    if isinstance(index, tuple):
        return any(map(_holds_list, index))
    return isinstance(index, list | np.ndarray)


def _find_caller() -> str:
    """Return the file and function of the innermost frame of the package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_PACKAGE):
            return f"{path.removeprefix(_PACKAGE + '/')}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "a test"
