"""The weights of a transformers model, checked against its form before memory is taken."""

import subprocess
import tempfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from transformer_cli.child import PROGRAM, environment
from transformer_cli.importing.form import ModelForm
from transformer_cli.importing.source import CONFIG, INDEX, SAFETENSORS, TORCH, SourceFiles
from transformer_cli.importing.torch_child import TOO_MUCH
from transformer_cli.importing.weights import EMBEDDINGS, SHARED, to_transformers
from transformer_cli.model.transformer import Transformer, sinusoids, weights_of

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
    """Read a model's tensors, in float32; tell ``log`` of a PyTorch file.

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
        if (table := tensors.pop(name, None)) is None:
            continue
        ours = sinusoids(*table.shape)
        halves = torch.cat((ours[:, ::2], ours[:, 1::2]), dim=1)
        if not torch.allclose(halves, table, atol=2e-3):  # they may be of half precision
            raise files.error(CONFIG, f"{name}: is no table of sinusoids; our models have no other")
    return tensors


class _Reader:
    """Reads tensors of a form; ``needed`` are those that must be there."""

    def __init__(self, files: SourceFiles, form: ModelForm) -> None:
        self._files = files
        with torch.device("meta"):  # without taking memory
            weights = weights_of(Transformer(form.model, form.src_size, form.tgt_size, form.pad_id))
            named = to_transformers(weights, form.model)
        shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
        self._d_model = form.model.d_model
        self._shapes = {**shapes, SHARED: (form.src_size, form.model.d_model)}
        self.needed = shapes.keys() - {*EMBEDDINGS.values(), "final_logits_bias"}
        self._max_size = 8 * sum(map(prod, self._shapes.values())) + _MAX_REST

    def read_safetensors(self, name: str) -> dict[str, Tensor]:
        with self._files.open(name, self._max_size) as (file, size):
            self._check_header(name, file, size)
            return self._load(name, self._files.finish(name, file, size))

    def read_shards(self) -> dict[str, Tensor]:
        files = self._files
        listed = files.read_json(INDEX).get("weight_map")
        names = set(map(str, listed.values())) if isinstance(listed, dict) else set()
        if not 0 < len(names) <= _MAX_SHARDS:
            raise files.error(INDEX, f"weight_map names {len(names)} files")
        tensors: dict[str, Tensor] = {}
        for name in sorted(names):
            shard = self.read_safetensors(name)
            if twice := tensors.keys() & shard.keys():
                raise files.error(name, f"has {min(twice)}, which another file has, too")
            tensors |= shard
        return tensors

    def read_torch(self, name: str) -> dict[str, Tensor]:
        """Read a file of torch.save, by way of a process that turns it into safetensors."""
        with (
            tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
            self._files.open(name, self._max_size) as (file, size),
        ):
            self._files.finish(name, file, size)
            file.seek(0)
            out = Path(directory) / SAFETENSORS
            # The file, its tensors apart from each other, and as bytes.
            command = [
                *PROGRAM[:-1],
                f"{__package__}.torch_child",
                str(out),
                str(3 * self._max_size),
            ]
            done = subprocess.run(
                command, stdin=file, capture_output=True, text=True, env=environment(), check=False
            )
            if done.returncode:  # by a signal, if the limit has ended it
                raise self._files.error(name, done.stdout.strip() or TOO_MUCH)
            with out.open("rb") as tensors:
                self._check_header(name, tensors, out.stat().st_size)
                tensors.seek(0)
                return self._load(name, tensors.read())

    def _check_header(self, name: str, file: BinaryIO, size: int) -> None:
        """Check names, types and shapes, which the start of a safetensors file tells."""
        files = self._files
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(_MAX_HEADER, size - 8):
            raise files.error(name, "is not a safetensors file, or was cut off")
        header = files.parse(name, file.read(length))
        header.pop("__metadata__", None)
        for tensor, entry in header.items():
            entry = entry if isinstance(entry, dict) else {}
            shape, dtype = entry.get("shape"), entry.get("dtype")
            if not isinstance(shape, list) or not all(type(length) is int for length in shape):
                problem = f"is not a safetensors file ({tensor[:80]} has no shape)"
                raise files.error(name, problem)
            self._check_shape(name, tensor, tuple(shape))
            if dtype not in _FLOATS:
                raise files.error(name, f"{tensor} has the type {str(dtype)[:20]}, not float32")

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

    def _load(self, name: str, data: bytes) -> dict[str, Tensor]:
        try:
            tensors = load(data)
        except (SafetensorError, KeyError, ValueError) as error:
            problem = f"is not a safetensors file, or damaged ({error})"
            raise self._files.error(name, problem) from None
        for key, tensor in tensors.items():
            self._check_shape(name, key, tuple(tensor.shape))
            if not tensor.isfinite().all():
                raise self._files.error(name, f"{key} has values that are infinite or no number")
        return {key: tensor.float() for key, tensor in tensors.items()}
