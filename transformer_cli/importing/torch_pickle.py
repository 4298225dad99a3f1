"""What ``torch.save`` pickles of a model's weights, read without pickle.

``torch.load`` with ``weights_only`` runs no code, but a file of a kilobyte can make it take any
amount of memory. Here a file takes memory in proportion to its size.
"""

import pickletools
from dataclasses import dataclass
from typing import Any, BinaryIO

import torch

# In bytes, of what describes the tensors: a large model has a hundredth of it.
_MAX_SIZE = 1 << 22
# Of a tuple: arguments, or the sizes of a tensor's dimensions.
_MAX_VALUES = 8
_DTYPES = {
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch BFloat16Storage": torch.bfloat16,
    "torch DoubleStorage": torch.float64,
}
_DICT = "collections OrderedDict"
_TENSOR, _PARAMETER = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"
_CONSTANTS = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None, "EMPTY_TUPLE": ()}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class TorchPickleError(ValueError):
    """Something that ``torch.save`` does not write of weights."""


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor's elements lie.

    Attributes:
        storage: the key of the bytes.
        dtype: of each element.
        offset: of the first element, in elements.
        shape: the tensor's.
        stride: the tensor's, in elements.
    """

    storage: str
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True)
class _Global:
    """A name that a pickle would import."""

    name: str


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype


_MARK = object()


def read_pickle(file: BinaryIO) -> Any:
    """Return what a pickle says, tensors as ``StoredTensor``; the file stands after it then.

    Raises:
        TorchPickleError: it is damaged, or says more than where tensors lie.
    """
    machine = _Machine()
    try:
        for code, argument, position in pickletools.genops(file):
            if position is not None and position > _MAX_SIZE:
                raise TorchPickleError(f"describes its tensors in more than {_MAX_SIZE:,} bytes")
            machine.step(code.name, argument)
        return machine.stack.pop()
    except TorchPickleError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise TorchPickleError(f"is damaged, or no file of weights ({error})") from None


class _Machine:
    """The part of pickle's machine that weights need."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def step(self, code: str, argument: Any) -> None:
        """Do what one opcode says."""
        stack = self.stack
        match code:
            case "PROTO" | "STOP":
                pass
            case "MARK":
                stack.append(_MARK)
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINUNICODE":
                stack.append(argument)
            case "NEWTRUE" | "NEWFALSE" | "NONE" | "EMPTY_TUPLE":
                stack.append(_CONSTANTS[code])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "TUPLE":
                stack.append(tuple(self._pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop(_TUPLES[code])))
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "APPENDS":
                items = self._pop_to_mark()
                stack[-1].extend(items)
            case "SETITEM":
                self._set_items(self._pop(2))
            case "SETITEMS":
                self._set_items(self._pop_to_mark())
            case "BUILD":  # attributes of a dictionary, as versions of modules
                stack.pop()
            case "GLOBAL":
                stack.append(_Global(argument))
            case "BINPERSID":
                stack.append(_storage(*_few(stack.pop())))
            case "REDUCE":
                function, arguments = self._pop(2)
                stack.append(_call(function, *_few(arguments)))
            case _:
                raise TorchPickleError(f"is not as torch.save writes files of weights ({code})")

    def _pop(self, count: int) -> list[Any]:
        popped = self.stack[-count:]
        del self.stack[-count:]
        return popped

    def _pop_to_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _set_items(self, items: list[Any]) -> None:
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise TypeError("a key is no text")
            self.stack[-1][key] = value


def _few(values: Any) -> tuple[Any, ...]:
    """Return a tuple of a few values: to go through a long one again and again takes hours."""
    if not isinstance(values, tuple) or len(values) > _MAX_VALUES:
        raise TypeError("a few values are expected")
    return values


def _call(function: object, *arguments: Any) -> object:
    """Return what one of the functions for weights would."""
    match function, arguments:
        case _Global(name), () if name == _DICT:
            return {}
        case _Global(name), (StoredTensor() as tensor, _, _) if name == _PARAMETER:
            return tensor
        case _Global(name), (_Storage(key, dtype), offset, shape, stride, *_) if name == _TENSOR:
            for number in (offset, *_few(shape), *_few(stride)):
                if type(number) is not int or number < 0:
                    raise TypeError("a tensor's place is no number")
            return StoredTensor(key, dtype, offset, shape, stride)
        case _Global(name), _:
            raise TorchPickleError(
                "is not only weights: to read it, code in it would have to be run "
                f"({name[:80]!r}); ask for a model.safetensors"
            )
        case _:
            raise TypeError("what is called is no function")


def _storage(kind: str, storage_class: _Global, key: str, *_: object) -> _Storage:
    if kind != "storage" or not isinstance(key, str):
        raise TypeError("a storage has no key")
    dtype = _DTYPES.get(storage_class.name)
    if dtype is None:
        raise TorchPickleError(f"has a tensor of {storage_class.name[:80]!r}, not of float32")
    return _Storage(key, dtype)
