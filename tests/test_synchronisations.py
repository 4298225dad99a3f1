"""The watch sees each operation that a GPU would wait for, and no other."""

from collections.abc import Callable

import pytest
import torch
from synchronisations import watch_operations
from torch import Tensor

from transformer_cli.data.batches import make_dummy_batch


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        (lambda x: x[0, 0].item(), "_local_scalar_dense"),
        (lambda x: float(x[0, 0]), "_local_scalar_dense"),
        (lambda x: bool(x.isnan().any()), "_local_scalar_dense"),
        (lambda x: f"{x.sum():.2f}", "_local_scalar_dense"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: x.cpu(), "cpu"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: torch.where(x > 0), "nonzero"),
        (lambda x: x[x > 0], "index"),
        (lambda x: x.masked_select(x > 0), "masked_select"),
        (lambda x: x.unique(), "_unique2"),
        (lambda x: torch.equal(x, x), "equal"),
        (lambda x: x.repeat_interleave(torch.arange(2), dim=0), "repeat_interleave"),
        (lambda x: x[[0, 1], 0], "index by list"),
        (lambda x: x.__setitem__((0, 0), 3.0), "assigned number"),
        (lambda x: torch.tensor([1.0]), "tensor"),
        (lambda x: x.to("meta"), "_to_copy"),
    ],
)
def test_what_waits_is_seen(wait: Callable[[Tensor], object], name: str) -> None:
    x = torch.ones(2, 2)
    with watch_operations() as watched:
        wait(x)
    assert watched.synchronisations == [f"{name} in a test"]
    with watch_operations() as watched, torch.inference_mode():
        wait(x)
    assert watched.synchronisations == [f"{name} in a test"]


def test_what_does_not_wait_is_left_alone() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    with watch_operations() as watched:
        y = x[torch.arange(2), 0] + x.masked_fill(x > 0, 1.0).sum() + torch.zeros(2)
        y.repeat_interleave(2).sum().backward()  # type: ignore[no-untyped-call]
        y.detach()[:1] = 3.0
        y.to("cpu", torch.float64)
    assert watched.synchronisations == []


def test_operations_are_counted_backward_too_and_views_launch_nothing() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    with watch_operations() as watched:
        (x.view(4) * 2.0).sum().backward()  # type: ignore[no-untyped-call]
    counted = {"aten.mul.Tensor": 2, "aten.view.default": 2, "aten.sum.default": 1}
    assert counted.items() <= watched.operations.items()
    # Both products, the sum, and the gradient of ones that backward starts with.
    assert watched.launches == 4


def test_tensors_made_on_the_default_device_are_seen() -> None:
    x = torch.ones(2)
    with watch_operations() as watched:
        torch.zeros(2, device=x.device) + torch.zeros_like(x) + x.new_zeros(2)
        torch.zeros(2)
        torch.arange(2, device=None)
    assert watched.unplaced == ["zeros in a test", "arange in a test"]


def test_the_caller_in_the_package_is_named() -> None:
    with watch_operations() as watched:
        make_dummy_batch()
    assert watched.synchronisations == ["tensor in data/batches.py:make_dummy_batch"]
