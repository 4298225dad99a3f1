"""What --precision auto stands for in training."""

import pytest
import torch

from transformer_cli.base.errors import UsageError
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.model import device as devices
from transformer_cli.model.device import choose_training_precision

CPU, APPLE = torch.device("cpu"), torch.device("mps")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_auto_is_bfloat16_where_the_processor_has_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_bfloat16", lambda: name == "bfloat16")
    assert str(choose_training_precision("auto", CPU, SINGLE_PROCESS)) == f"torch.{name}"


@pytest.mark.parametrize("earlier", ["float32", "bfloat16"])
def test_a_run_goes_on_as_it_began(earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_bfloat16", lambda: earlier == "float32")
    assert (
        str(choose_training_precision("auto", CPU, SINGLE_PROCESS, earlier)) == f"torch.{earlier}"
    )


def test_a_precision_that_is_named_is_taken() -> None:
    assert choose_training_precision("bfloat16", CPU, SINGLE_PROCESS, "float32") == torch.bfloat16
    assert choose_training_precision("float32", CPU, SINGLE_PROCESS, "bfloat16") == torch.float32
    assert choose_training_precision("auto", APPLE, SINGLE_PROCESS) == torch.float32
    with pytest.raises(UsageError, match="MPS"):
        choose_training_precision("bfloat16", APPLE, SINGLE_PROCESS)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("has", [True, False])
def test_an_emulation_does_not_count(
    machine: str, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    is_x86 = machine == "x86_64"
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has and is_x86)
    # True for all processors with AVX-512.
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has or is_x86)
    assert devices.has_bfloat16() == has
