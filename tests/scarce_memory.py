"""A stand-in for a device that has memory for so many rows of a batch."""

import pytest
import torch
from torch import Tensor

from transformer_cli.model.transformer import Transformer


def allow_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """Let batches of more rows run out of memory; return the list of rows that were encoded."""
    encode = Transformer.encode
    encoded: list[int] = []

    def limited(model: Transformer, src: Tensor) -> tuple[Tensor, Tensor]:
        if len(src) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        encoded.append(len(src))
        return encode(model, src)

    monkeypatch.setattr(Transformer, "encode", limited)
    return encoded
