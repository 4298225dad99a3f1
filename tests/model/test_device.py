"""Where and in which precision is computed, with stand-ins for GPUs."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.model.device import choose_device, choose_precision

is_cudnn_on: Callable[[], bool] = torch.backends.cuda.cudnn_sdp_enabled

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An A100 whose compute capability can be changed. Every GPU emulates bfloat16."""
    properties = SimpleNamespace(major=8, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    return properties


@pytest.fixture(autouse=True)
def _cudnn_as_before() -> Iterator[None]:
    enabled = is_cudnn_on()
    yield
    torch.backends.cuda.enable_cudnn_sdp(enabled)


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_on_a_gpu_cudnns_attention_is_off(name: str, gpu: SimpleNamespace) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert choose_device(name) == GPU  # type: ignore[arg-type]
    assert not is_cudnn_on()
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_cpu_leaves_cudas_settings_alone(gpu: SimpleNamespace) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    assert choose_device("cpu") == CPU
    assert is_cudnn_on()


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        (7, torch.float32),  # V100 and T4, which only emulate it
        (8, torch.bfloat16),
        (9, torch.bfloat16),
    ],
)
def test_auto_is_bfloat16_where_the_gpu_computes_in_it(
    capability: int, expected: torch.dtype, gpu: SimpleNamespace
) -> None:
    gpu.major = capability
    assert choose_precision("auto", GPU) == expected
    assert choose_precision("auto", CPU) == torch.float32


def test_a_precision_that_is_asked_for_is_used_emulated_or_not(gpu: SimpleNamespace) -> None:
    gpu.major = 7
    for device in (CPU, GPU):
        assert choose_precision("bfloat16", device) == torch.bfloat16
        assert choose_precision("float32", device) == torch.float32


@pytest.fixture
def apple(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A Mac's MPS, which this torch cannot compute on."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    return torch.device("mps")


def test_mps_is_chosen_by_name_only(apple: torch.device) -> None:
    assert choose_device("auto") == CPU
    assert choose_device("mps") == apple
    assert choose_device("cpu") == CPU


def test_mps_computes_in_float32(apple: torch.device) -> None:
    assert choose_precision("auto", apple) == torch.float32
    with pytest.raises(UsageError, match="`precision` bfloat16: not supported on MPS"):
        choose_precision("bfloat16", apple)


def test_no_mps() -> None:
    with pytest.raises(UsageError, match="`device` mps: torch finds no MPS device here"):
        choose_device("mps")
