"""The weights of a transformers model, checked against its form before memory is taken."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from transformer_cli.importing.model_form import CONFIG, ModelForm
from transformer_cli.importing.source_files import SourceFiles
from transformer_cli.importing.torch_file import read_torch_tensors
from transformer_cli.importing.torch_pickle import TorchPickleError
from transformer_cli.interop.weights import EMBEDDINGS, SHARED, to_transformers
from transformer_cli.model.transformer import Transformer, sinusoids, weights_of

SAFETENSORS, INDEX, TORCH = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)
Shapes = Mapping[str, tuple[int, ...]]
# In bytes; headers of large models take a hundredth of it.
_MAX_HEADER = 1 << 26
# Of a whole file besides the weights: names, and the table of positions.
_MAX_REST = 1 << 27
_MAX_SHARDS = 1000
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_FLOATS = {"F64", "F32", "F16", "BF16"}


def read_tensors(
    files: SourceFiles, form: ModelForm, log: Callable[[str], object]
) -> dict[str, Tensor]:
    """Read a model's tensors, in float32.

    Args:
        files: the model's directory.
        form: the model's, which the tensors have to have.
        log: told where a PyTorch file is read.

    Raises:
        ImportedModelError: a file is missing or damaged, or a tensor is not of this form.
    """
    reader = _Reader(files, form)
    if files.has(SAFETENSORS):
        tensors = reader.read_safetensors(SAFETENSORS)
    elif files.has(INDEX):
        tensors = reader.read_shards()
    elif files.has(TORCH):
        tensors = reader.read_torch(TORCH)
        log(f"{TORCH}: read without running code, as tensors only")
    else:
        raise files.error(SAFETENSORS, f"missing; a model has it, {INDEX} or {TORCH}")
    for name in reader.needed:
        if name not in tensors:
            raise files.error(SAFETENSORS, f"no file has the tensor {name}")
    if SHARED not in tensors and not tensors.keys() >= set(list(EMBEDDINGS.values())[:2]):
        raise files.error(SAFETENSORS, f"no file has the tensor {SHARED}")
    for name in _POSITIONS:
        if name in tensors and not _are_sinusoids(tensors.pop(name)):
            raise files.error(CONFIG, f"{name}: is no table of sinusoids; our models have no other")
    return tensors


def expected_shapes(form: ModelForm) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's tensors but its embeddings, without taking memory."""
    with torch.device("meta"):
        weights = weights_of(Transformer(form.model, form.src_size, form.tgt_size, form.pad_id))
        named = to_transformers(weights, form.model)
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


class _Reader:
    """Reads tensors of a form.

    Attributes:
        needed: tensors that must be there.
    """

    def __init__(self, files: SourceFiles, form: ModelForm) -> None:
        self._files = files
        shapes = expected_shapes(form)
        self._d_model = form.model.d_model
        self._shapes = {**shapes, SHARED: (form.src_size, form.model.d_model)}
        self.needed = shapes.keys() - {*EMBEDDINGS.values(), "final_logits_bias"}
        self._max_size = 8 * sum(map(prod, self._shapes.values())) + _MAX_REST

    def read_safetensors(self, name: str) -> dict[str, Tensor]:
        files = self._files
        with files.open(name, self._max_size) as (file, size):
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(_MAX_HEADER, size - 8):
                raise files.error(name, "is not a safetensors file, or was cut off")
            header = files.parse(name, file.read(length))
            header.pop("__metadata__", None)
            for tensor, entry in header.items():
                self._check_header(name, tensor, entry)
            data = files.finish(name, file, size)
        try:
            tensors = load(data)
        except (SafetensorError, KeyError, ValueError) as error:
            raise files.error(name, f"is not a safetensors file, or damaged ({error})") from None
        return self._checked(name, tensors)

    def _check_header(self, name: str, tensor: str, entry: Any) -> None:
        entry = entry if isinstance(entry, dict) else {}
        shape, dtype = entry.get("shape"), entry.get("dtype")
        if not isinstance(shape, list) or not all(type(each) is int for each in shape):
            raise self._files.error(name, f"is not a safetensors file ({tensor[:80]} has no shape)")
        self._check_shape(name, tensor, tuple(shape))
        if dtype not in _FLOATS:
            raise self._files.error(name, f"{tensor} has the type {str(dtype)[:20]}, not float32")

    def read_shards(self) -> dict[str, Tensor]:
        files = self._files
        listed = files.read_json(INDEX).get("weight_map")
        names = set(map(str, listed.values())) if isinstance(listed, dict) else set()
        if not 0 < len(names) <= _MAX_SHARDS:
            raise files.error(INDEX, f"weight_map names {len(names)} files")
        tensors: dict[str, Tensor] = {}
        for name in sorted(names):
            found = self.read_safetensors(name)
            if twice := tensors.keys() & found.keys():
                raise files.error(name, f"has {min(twice)}, which another file has, too")
            tensors |= found
        return tensors

    def read_torch(self, name: str) -> dict[str, Tensor]:
        data = self._files.read(name, self._max_size)
        try:
            tensors = read_torch_tensors(data, partial(self._check_shape, name))
        except TorchPickleError as error:
            raise self._files.error(name, f"{error}") from None
        return self._checked(name, tensors)

    def _checked(self, name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        for key, tensor in tensors.items():
            self._check_shape(name, key, tuple(tensor.shape))
            if not tensor.is_floating_point():
                raise self._files.error(name, f"{key} has the type {tensor.dtype}, not float32")
            if not tensor.isfinite().all():
                raise self._files.error(name, f"{key} has values that are infinite or no number")
        return {key: tensor.float() for key, tensor in tensors.items()}

    def _check_shape(self, name: str, tensor: str, shape: tuple[int, ...]) -> None:
        if tensor in _POSITIONS:
            if len(shape) == 2 and shape[1] == self._d_model and 0 < prod(shape) < _MAX_REST // 16:
                return
        elif tensor not in self._shapes:
            raise self._files.error(
                name, f"has the tensor {tensor[:80]!r}, which our models do not have"
            )
        elif shape == self._shapes[tensor]:
            return
        expected = self._shapes.get(tensor, ("n", self._d_model))
        raise self._files.error(
            name, f"{tensor} has the shape {shape}, which is {expected} by {CONFIG}"
        )


def _are_sinusoids(table: Tensor) -> bool:
    """Return whether positions are ours, but for the order of columns and half precision."""
    ours = sinusoids(*table.shape)
    return torch.allclose(torch.cat((ours[:, ::2], ours[:, 1::2]), dim=1), table, atol=2e-3)
