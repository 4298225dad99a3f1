"""The precision that a training computes in: bfloat16 where that is faster."""

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from transformer_cli.base.ranks import Ranks
from transformer_cli.config.choices import PrecisionName
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.device import choose_precision
from transformer_cli.model.linear import autocast
from transformer_cli.model.transformer import EncoderLayer
from transformer_cli.runs.metrics_log import SESSION_KIND, Record

WORTHWHILE = 1.15
"""Gain by bfloat16; less is not worth the rounding, and may be noise of the machine."""
_ROUNDS = 5
_SENTENCES, _TOKENS = 64, 20


def choose_training_precision(
    name: PrecisionName,
    device: torch.device,
    ranks: Ranks,
    records: Iterable[Record] = (),
    say: Callable[[str], object] = lambda _: None,
) -> torch.dtype:
    """Return the compute dtype of a training that asks for ``name``; all ranks get the same.

    On a CPU 'auto' is what the run was trained with so far, and for a new run bfloat16 if a short
    measurement shows that it is faster here, which ``say`` gets. Elsewhere see
    ``choose_precision``.
    """
    if name != "auto" or device.type != "cpu":
        return choose_precision(name, device)
    earlier = [record.get("precision") for record in records if record["kind"] == SESSION_KIND]
    if earlier:
        if earlier[-1] != "bfloat16":
            return torch.float32
        if not has_bfloat16():
            say(
                "precision auto: bfloat16, as the run began; this processor emulates it, so "
                "float32 is faster"
            )
        return torch.bfloat16
    (gain,) = ranks.sum([measure_gain() if ranks.is_main else 0.0])
    if gain < WORTHWHILE:
        return torch.float32
    say(f"precision auto: bfloat16, {gain:.1f} times as fast as float32 here")
    return torch.bfloat16


def has_bfloat16() -> bool:
    """Return whether this processor multiplies in bfloat16, instead of emulating it."""
    is_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return bool(is_supported())


def measure_gain() -> float:
    """Return how many times as fast as in float32 an encoder layer trains in bfloat16 here.

    It is 0 where the processor has no bfloat16.
    """
    if not has_bfloat16():
        return 0.0
    with torch.random.fork_rng(devices=[]):
        layer = EncoderLayer(ModelConfig(d_model=256, d_ff=1024, num_heads=4))
        x = torch.randn(_SENTENCES, _TOKENS, 256)
        mask = torch.ones(_SENTENCES, 1, 1, _TOKENS, dtype=torch.bool)
        dtypes = torch.float32, torch.bfloat16
        # By turns, and the fastest of each: other processes take their share of the cores.
        rounds = [[_time_step(layer, x, mask, dtype) for dtype in dtypes] for _ in range(_ROUNDS)]
    float32, bfloat16 = (min(of_round[place] for of_round in rounds) for place in (0, 1))
    return float32 / bfloat16


def _time_step(layer: EncoderLayer, x: Tensor, mask: Tensor, precision: torch.dtype) -> float:
    start = time.perf_counter()
    with autocast(x.device, precision):
        y = layer(x, mask)
    y.float().sum().backward()
    return time.perf_counter() - start
