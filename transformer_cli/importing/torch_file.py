"""Files of ``torch.save``, as pytorch_model.bin."""

import io
import zipfile
from collections.abc import Callable, Mapping
from math import prod

import torch
from torch import Tensor

from transformer_cli.importing.torch_pickle import StoredTensor, TorchPickleError, read_pickle

# The first pickle of a file of torch before 1.6.
_MAGIC = 0x1950A86A20F9469CFC6C


def read_torch_tensors(
    data: bytes, check_shape: Callable[[str, tuple[int, ...]], object]
) -> dict[str, Tensor]:
    """Return a file's tensors by name.

    Args:
        data: the file's bytes.
        check_shape: called with a tensor's name and shape before memory is taken for it.

    Raises:
        TorchPickleError: the file is damaged, or holds more than tensors by name.
    """
    is_zip = zipfile.is_zipfile(io.BytesIO(data))
    named, storages = _read_zip(data) if is_zip else _read_stream(data)
    if not isinstance(named, dict) or not all(
        isinstance(each, StoredTensor) for each in named.values()
    ):
        raise TorchPickleError("is not a table of tensors by name")
    for name, stored in named.items():
        check_shape(name, stored.shape)
    return {name: _tensor(name, stored, storages) for name, stored in named.items()}


def _read_zip(data: bytes) -> tuple[object, dict[str, bytearray]]:
    """Return what is pickled in a file of torch 1.6 or later, and the storages."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {each.filename.partition("/")[2]: each for each in archive.infolist()}
            if any(each.compress_type != zipfile.ZIP_STORED for each in entries.values()):
                raise TorchPickleError("is compressed, as torch does not write files")
            # Two may be the same bytes.
            if sum(each.file_size for each in archive.infolist()) > len(data):
                raise TorchPickleError("has entries of more bytes than the file")
            if "data.pkl" not in entries:
                raise TorchPickleError("is damaged, or no file of torch.save: it has no data.pkl")
            named = read_pickle(io.BytesIO(archive.read(entries["data.pkl"])))
            return named, {
                name.removeprefix("data/"): bytearray(archive.read(entry))
                for name, entry in entries.items()
                if name.startswith("data/")
            }
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, TorchPickleError):
            raise
        raise TorchPickleError(f"is damaged ({error})") from None


def _read_stream(data: bytes) -> tuple[object, dict[str, bytearray]]:
    """Return what is pickled in a file of an older torch, and the storages, which follow it."""
    file = io.BytesIO(data)
    if read_pickle(file) != _MAGIC:
        raise TorchPickleError("is damaged, or no file of torch.save")
    _, _, named, keys = (read_pickle(file) for _ in range(4))
    sizes = {
        each.storage: each.dtype.itemsize
        for each in (named.values() if isinstance(named, dict) else ())
        if isinstance(each, StoredTensor)
    }
    storages: dict[str, bytearray] = {}
    for key in keys if isinstance(keys, list) else ():
        if not isinstance(key, str):
            raise TorchPickleError("is damaged: the key of a tensor's bytes is no text")
        count = int.from_bytes(file.read(8), "little")
        storages[key] = bytearray(file.read(min(count, len(data)) * sizes.get(key, 0)))
    return named, storages


def _tensor(name: str, stored: StoredTensor, storages: Mapping[str, bytearray]) -> Tensor:
    """Return a tensor, which shares the storage's memory."""
    shape, stride, size = stored.shape, stored.stride, stored.dtype.itemsize
    if len(stride) != len(shape) or any(
        length != 1 and stride[n] != prod(shape[n + 1 :]) for n, length in enumerate(shape)
    ):
        raise TorchPickleError(f"{name} is not stored element by element")
    storage = storages.get(stored.storage, bytearray())
    if not 0 < (stored.offset + prod(shape)) * size <= len(storage):
        raise TorchPickleError(f"was cut off: {name} is not whole")
    flat = torch.frombuffer(
        storage, dtype=stored.dtype, count=prod(shape), offset=stored.offset * size
    )
    return flat.view(shape)
