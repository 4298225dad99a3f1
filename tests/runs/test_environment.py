"""The recorded environment of trainings and evaluations."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_cli
from transformer_cli.runs.metrics_log import (
    describe_environment,
    last_session,
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


def test_the_last_session_is_read(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    assert last_session(metrics) == {}
    records = [session(0), session(5, threads=64), {"kind": "train", "step": 50}]
    metrics.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    assert last_session(metrics) == session(5, threads=64)
