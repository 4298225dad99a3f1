"""The weights of a transformers model, checked against its form."""

import subprocess
import tempfile
from collections.abc import Callable
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from transformer_cli.child import PROGRAM, environment
from transformer_cli.importing.form import ModelForm
from transformer_cli.importing.source import CONFIG, SAFETENSORS, TORCH, SourceFiles
from transformer_cli.importing.torch_child import TOO_MUCH
from transformer_cli.importing.weights import BIAS_ROW, EMBEDDINGS, SHARED, to_transformers
from transformer_cli.model.transformer import build_shapes, sinusoids, weights_of

# In bytes, of a whole file besides the weights: names, and the table of positions.
_MAX_REST = 1 << 27
# In bytes, of all names, types and shapes: each takes 30 times as much memory, if it is empty.
_MAX_HEADER = 1 << 23
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
# What a file may lack, as others of its tensors stand for it.
_OPTIONAL = {*EMBEDDINGS.values(), SHARED, BIAS_ROW}
Shapes = dict[str, tuple[int, ...]]


def read_tensors(
    files: SourceFiles, form: ModelForm, log: Callable[[str], object]
) -> dict[str, Tensor]:
    """Read a model's tensors, in float32, all of this form; tell ``log`` of a PyTorch file."""
    shapes = _find_shapes(form)
    # A file that is larger than the model could be is refused before memory is taken.
    max_size = 8 * sum(map(prod, shapes.values())) + _MAX_REST
    if files.has(SAFETENSORS):
        name, data = SAFETENSORS, files.read(SAFETENSORS, max_size)
    elif files.has(TORCH):
        log(f"{TORCH}: read without running code, as tensors only")
        name, data = TORCH, _convert(files, max_size)
    else:
        problem = f"missing; a model has it, or {TORCH}; save one in parts as one with transformers"
        raise files.error(SAFETENSORS, problem)
    tensors = _load(files, name, data, shapes)
    needed = shapes.keys() - _OPTIONAL
    if SHARED not in tensors and not tensors.keys() >= set(list(EMBEDDINGS.values())[:2]):
        needed.add(SHARED)
    if missing := needed - tensors.keys():
        raise files.error(name, f"lacks the tensor {min(missing)}")
    for positions in _POSITIONS:
        if (table := tensors.pop(positions, None)) is not None:
            ours = sinusoids(*table.shape)
            halves = torch.cat((ours[:, ::2], ours[:, 1::2]), dim=1)
            if not torch.allclose(halves, table, atol=2e-3):  # they may be of half precision
                problem = f"{positions}: is no table of sinusoids; our models have no other"
                raise files.error(CONFIG, problem)
    return tensors


def _find_shapes(form: ModelForm) -> Shapes:
    """Return the shapes of all tensors that a model of this form may have, but for positions."""
    model = build_shapes(form.model, form.src_size, form.tgt_size, form.pad_id)
    with torch.device("meta"):
        named = to_transformers(weights_of(model), form.model)
    shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
    return {**shapes, SHARED: (form.src_size, form.d_model)}


def _convert(files: SourceFiles, max_size: int) -> bytes:
    """Return a file of torch.save as safetensors, which a process of its own makes of it."""
    with (
        tempfile.TemporaryFile() as file,
        tempfile.TemporaryDirectory(prefix="transformer-cli-") as directory,
    ):
        file.write(files.read(TORCH, max_size))
        file.seek(0)
        out = Path(directory) / SAFETENSORS
        # The file, its tensors apart from each other, and as bytes.
        max_memory = str(3 * max_size)
        command = [*PROGRAM[:-1], f"{__package__}.torch_child", str(out), max_memory]
        done = subprocess.run(
            command, stdin=file, capture_output=True, text=True, env=environment(), check=False
        )
        if done.returncode:  # by a signal, if the limit has ended it
            raise files.error(TORCH, done.stdout.strip() or TOO_MUCH)
        return out.read_bytes()


def _load(files: SourceFiles, name: str, data: bytes, shapes: Shapes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, all of names and shapes that the model has."""
    try:
        if int.from_bytes(data[:8], "little") > _MAX_HEADER:
            raise ValueError(f"a header of more than {_MAX_HEADER >> 20} MiB")
        tensors = load(data)
    # The last two: shapes of more dimensions or larger numbers than torch has.
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise files.error(name, f"is not a safetensors file, or damaged ({reason})") from None
    for key, tensor in sorted(tensors.items()):
        shape, width = tuple(tensor.shape), shapes[SHARED][1]
        expected = shapes.get(key)
        if key in _POSITIONS:  # of any number, but no more than comparing them has memory for
            rows = shape[0] if shape else 0
            expected = (min(max(1, rows), _MAX_REST // 16 // width), width)
        if expected is None:
            raise files.error(name, f"has the tensor {key[:80]!r}, which our models do not have")
        if shape != expected:
            problem = f"{key} has the shape {str(shape)[:60]}, which is {expected} by {CONFIG}"
            raise files.error(name, problem)
        if tensor.dtype not in _FLOATS:
            raise files.error(name, f"{key} has the type {tensor.dtype}, not float32")
        if not tensor.isfinite().all():
            raise files.error(name, f"{key} has values that are infinite or no number")
    return {key: tensor.float() for key, tensor in tensors.items()}
