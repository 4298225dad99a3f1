"""Fused attention of each kind against plain matrix products, for short sequences."""

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.gpu.parts import Row
from benchmarks.gpu.setting import Setting
from benchmarks.gpu.timing import median_seconds, synchronize
from transformer_cli.model.transformer import attention_weights

_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
_D_HEAD, _DROPOUT = 64, 0.1

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def measure(setting: Setting) -> Iterator[Row]:
    """Yield milliseconds of each kind, by heads, mask and length."""
    tokens = 256 if setting.small else 25_000
    for heads in (4, 8):
        for masked in (False, True):
            for length in (8, 64) if setting.small else (8, 16, 24, 32, 48, 64):
                shape = (tokens // length, heads, length, _D_HEAD)
                yield {
                    "heads": heads,
                    "mask": "padding" if masked else "causal",
                    "length": length,
                    "plain": _describe(_plain, shape, masked, setting.device),
                    **{
                        name: _describe(_fused(backend), shape, masked, setting.device)
                        for name, backend in _BACKENDS.items()
                    },
                }


def _plain(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    weights = attention_weights(queries, keys, mask, causal=mask is None)
    return F.dropout(weights, _DROPOUT) @ values


def _fused(backend: SDPBackend) -> Attend:
    def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                queries, keys, values, mask, _DROPOUT, is_causal=mask is None
            )

    return attend


def _describe(attend: Attend, shape: tuple[int, ...], masked: bool, device: torch.device) -> str:
    """Return the median and the first call's milliseconds, or that there is no such kernel."""
    # Laid out as the model has them: heads are split from one projection.
    batch, heads, length, d_head = shape
    projected = torch.randn(batch, length, 3, heads, d_head, device=device).to(torch.bfloat16)
    queries, keys, values = projected.requires_grad_().permute(2, 0, 3, 1, 4)
    gradient = torch.randn_like(values)
    lengths = torch.randint(1, length + 1, (batch, 1, 1, 1), device=device)
    mask = torch.arange(length, device=device) < lengths if masked else None

    def forward_and_backward() -> None:
        attend(queries, keys, values, mask).backward(  # type: ignore[no-untyped-call]
            gradient, retain_graph=True
        )
        projected.grad = None

    try:
        synchronize(device)
        start = time.perf_counter()
        forward_and_backward()
        synchronize(device)
        first = time.perf_counter() - start
        return f"{1000 * median_seconds(forward_and_backward, device):.3f} ({1000 * first:.1f})"
    except RuntimeError as error:
        return str(error).splitlines()[0].partition(". ")[0][:60]
