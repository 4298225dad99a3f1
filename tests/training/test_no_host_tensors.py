"""A step on a GPU touches no tensor of the host, which its CUDA graph could not capture.

There is no GPU here: device meta stands for it, whose tensors have shapes alone.
"""

from contextlib import nullcontext
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer_cli.config.schema import ModelConfig, TrainingConfig
from transformer_cli.model.transformer import build_shapes, sinusoids
from transformer_cli.ranks import SINGLE_PROCESS
from transformer_cli.training import loss, optimizer
from transformer_cli.training.execution import Execution
from transformer_cli.training.loss import _ModelWithLoss
from transformer_cli.training.optimizer import OPTIMIZERS, Optimizer

META = torch.device("meta")


class Mixed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each operation that has tensors of two devices, or whose result the host reads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noted: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        is_mixed = len({each.device for each in tensors}) > 1
        # What x[0] = 1.0 is; on a GPU, the number is copied from the host.
        is_assigned = func is torch.ops.aten.copy_.default and tensors[0].dim() == 0
        if is_mixed or is_assigned or "_local_scalar_dense" in str(func):
            self.noted.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def no_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device meta has none."""
    monkeypatch.setattr("transformer_cli.model.linear.compute_dtype", lambda x: x.dtype)
    monkeypatch.setattr(loss, "compute_dtype", lambda x: x.dtype)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setitem(loss._CHUNK_ELEMENTS, "meta", 500)


def test_what_is_noted() -> None:
    row = torch.zeros(3, device=META)
    with Mixed() as mixed:
        row[1] = 0.0
    assert mixed.noted == ["aten.copy_.default"]


@pytest.mark.parametrize("rdrop_alpha", [0.0, 3.0])
@pytest.mark.parametrize("tying", ["all", "none"])
def test_forward_and_backward(tying: Literal["all", "none"], rdrop_alpha: float) -> None:
    config = ModelConfig(d_model=8, d_ff=8, num_heads=2, dropout=0.1, tying=tying)
    model = build_shapes(config, 20, 20, pad_id=3)
    for embedding in (model.src_embedding, model.tgt_embedding):
        embedding.positions.table = sinusoids(9, 8).to(META)
    step = _ModelWithLoss(model, TrainingConfig(rdrop_alpha=rdrop_alpha))
    src, tgt = (torch.ones(40, length, dtype=torch.long, device=META) for length in (9, 7))
    with Mixed() as mixed:
        losses = step(src, tgt, tgt)
        (losses.loss / torch.ones((), device=META)).backward()
    assert mixed.noted == []


class FakeAdam:
    """Stands for torch's, which has no kernel for device meta."""

    param_groups: tuple[dict[str, Any], ...] = ()

    def step(self) -> None:
        """Do nothing."""

    def zero_grad(self, set_to_none: bool) -> None:
        """Do nothing."""


def test_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    adam = OPTIMIZERS["adam"]._replace(build=lambda *_: FakeAdam())  # type: ignore[arg-type]
    monkeypatch.setitem(optimizer.OPTIMIZERS, "adam", adam)
    small = ModelConfig(d_model=8, d_ff=8, num_heads=2)
    model, averaged = (build_shapes(small, 20, 20, pad_id=3) for _ in range(2))
    for weight in model.parameters():
        weight.grad = torch.empty_like(weight)
    config = TrainingConfig(ema_decay=0.9, clip_norm=1.0, skip_nonfinite=2)
    update = Optimizer(model, averaged, config, SINGLE_PROCESS, Execution(graphs=True))
    with Mixed() as mixed:
        results = update._update_eagerly()
    assert results.shape == (5,)
    assert mixed.noted == []
