"""What trainings and evaluations are done with, recorded and read again."""

from typing import Any

import pytest
import torch

import transformer_cli
from transformer_cli.runs.metrics_log import (
    changed_environment,
    describe_environment,
)


def session(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "session", "step": step, "device": "cpu", "precision": "float32", **values}


def test_this_process_is_described() -> None:
    found = describe_environment(torch.device("cpu"), torch.bfloat16, 2)
    assert (found["device"], found["precision"], found["processes"]) == ("cpu", "bfloat16", 2)
    assert found["threads"] == torch.get_num_threads()
    assert found["torch"] == torch.__version__
    assert found["transformer_cli"] == transformer_cli.__version__


def test_a_gpu_is_recorded_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # The version of CUDA is part of torch's, as in 2.11.0+cu130.
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    found = describe_environment(torch.device("cuda"), torch.bfloat16)
    assert found["device"] == "NVIDIA H100 80GB HBM3"


def test_without_a_session_there_is_no_change() -> None:
    now = describe_environment(torch.device("cpu"), torch.float32)
    assert changed_environment([{"kind": "train", "step": 50}], now) == []


def test_changes_are_against_the_last_session() -> None:
    now = describe_environment(torch.device("cpu"), torch.float32)
    then = dict(now)
    assert changed_environment([session(0, **then)], now) == []
    changed = changed_environment([session(0), session(5, **then | {"threads": 64})], now)
    assert [str(each) for each in changed] == [f"threads was 64, now {now['threads']}"]
