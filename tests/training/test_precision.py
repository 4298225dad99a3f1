"""What --precision auto stands for in training."""

import pytest
import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.training import resources as precisions
from transformer_cli.training.resources import choose_training_precision

CPU, APPLE = torch.device("cpu"), torch.device("mps")


@pytest.fixture
def gain(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the measurement finds, one number each time."""
    found: list[float] = []
    monkeypatch.setattr(precisions, "measure_gain", lambda: found.pop())
    return found


@pytest.mark.parametrize(
    ("found", "expected"), [(1.94, torch.bfloat16), (1.1, torch.float32), (0.0, torch.float32)]
)
def test_auto_is_what_is_faster(gain: list[float], found: float, expected: torch.dtype) -> None:
    gain.append(found)
    said: list[str] = []
    assert choose_training_precision("auto", CPU, SINGLE_PROCESS, [], said.append) == expected
    told = ["precision auto: bfloat16, 1.9 times as fast as float32 here"]
    assert said == (told if expected == torch.bfloat16 else [])


@pytest.mark.parametrize("earlier", ["float32", "bfloat16"])
def test_a_run_goes_on_as_it_began(gain: list[float], earlier: str) -> None:
    records = [
        {"kind": "session", "step": 0, "precision": earlier},
        {"kind": "train", "step": 10, "loss": 1.0},
    ]
    chosen = choose_training_precision("auto", CPU, SINGLE_PROCESS, records)
    assert str(chosen) == f"torch.{earlier}"
    assert gain == []


def test_a_precision_that_is_named_is_not_measured(gain: list[float]) -> None:
    assert choose_training_precision("bfloat16", CPU, SINGLE_PROCESS) == torch.bfloat16
    assert choose_training_precision("float32", CPU, SINGLE_PROCESS) == torch.float32
    assert choose_training_precision("auto", APPLE, SINGLE_PROCESS) == torch.float32
    with pytest.raises(UsageError, match="MPS"):
        choose_training_precision("bfloat16", APPLE, SINGLE_PROCESS)


def test_a_processor_without_bfloat16_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert choose_training_precision("auto", CPU, SINGLE_PROCESS) == torch.float32


@pytest.mark.parametrize("is_emulated", [True, False])
def test_a_run_that_goes_on_in_emulated_bfloat16_says_so(
    is_emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: not is_emulated)
    said: list[str] = []
    records = [{"kind": "session", "step": 0, "precision": "bfloat16"}]
    chosen = choose_training_precision("auto", CPU, SINGLE_PROCESS, records, said.append)
    assert chosen == torch.bfloat16
    assert len(said) == is_emulated
    assert all("float32 is faster" in line for line in said)


def test_measuring_leaves_no_trace() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    assert precisions.measure_gain() >= 0.0
    assert torch.equal(torch.rand(4), expected)
