"""A training's memory is counted from shapes, and a training that does not fit is refused."""

from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from transformer_cli.base.errors import ConfigError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.extensions.observers import memory
from transformer_cli.extensions.observers.memory import (
    Numbers,
    cgroup_limits,
    check_memory,
    count_numbers,
)
from transformer_cli.model.transformer import build_model, build_shapes, count_parameters
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.trainer import Trainer

CPU = torch.device("cpu")
LINES = TokenArray.from_sentences([[4, 5], [6]])


def config(model: dict[str, Any], **training: Any) -> Config:
    small = {"d_model": 16, "num_heads": 2, "d_ff": 24}
    settings = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}, "init": "run"}
    return Config.model_validate({**settings, "model": small | model, "training": training})


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"num_encoder_layers": 1, "num_decoder_layers": 4},
        {"num_encoder_layers": 5, "num_decoder_layers": 1, "norm": "pre"},
        {"tying": "none", "activation": "swiglu"},
        {"tying": "output", "positions": "learned"},
    ],
    ids=str,
)
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_memory_is_counted_without_allocating_it(model: dict[str, Any], optimizer: str) -> None:
    settings = config(model, freeze=["embeddings", "encoder"], optimizer=optimizer)
    made = build_model(settings.model, 12, 12, PAD_ID, settings.seed)
    made.freeze(settings.training.freeze)
    trainer = Trainer(made, EncodedText(LINES, LINES), settings, torch.float32)
    state = sum(each.numel() for each in trainer.optimizer.state().values())
    trained = count_parameters(made, trained_only=True)
    expected = Numbers(count_parameters(made), trained, state)
    shapes = build_shapes(settings.model, 12, 12, PAD_ID)
    shapes.freeze(settings.training.freeze)
    assert count_numbers(shapes, settings) == count_numbers(made, settings) == expected


def test_frozen_weights_take_no_more_memory_than_themselves() -> None:
    settings = config({}, freeze=["encoder"], ema_decay=0.9)
    made = build_model(settings.model, 12, 12, PAD_ID, settings.seed)
    made.freeze(["encoder"])
    trained = count_parameters(made, trained_only=True)
    expected = Numbers(2 * count_parameters(made), trained, 2 * trained)
    assert count_numbers(made, settings) == expected


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("training", "ranks", "bytes_each"),
    [
        ({}, SINGLE_PROCESS, 16),
        ({"ema_decay": 0.9}, SINGLE_PROCESS, 20),
        ({}, Ranks(size=4, local_size=4), 64),
        ({}, Ranks(size=4, local_size=2), 32),
    ],
)
def test_a_training_that_does_not_fit_is_refused(
    monkeypatch: pytest.MonkeyPatch, training: dict[str, Any], ranks: Ranks, bytes_each: int
) -> None:
    settings = config({"d_model": 512, "d_ff": 2048}, **training)
    weights = count_parameters(build_model(settings.model, 12, 12, PAD_ID, 1))
    needed = bytes_each * weights
    monkeypatch.setattr(memory, "memory_of", lambda device: needed)
    check_memory(build_shapes(settings.model, 12, 12, PAD_ID), settings, CPU, ranks)
    monkeypatch.setattr(memory, "memory_of", lambda device: needed - 1)
    with pytest.raises(ConfigError, match=r"^model: its [\d,]+ weights take at least .*; lower "):
        check_memory(build_shapes(settings.model, 12, 12, PAD_ID), settings, CPU, ranks)


# --- how much there is ----------------------------------------------------------------------------


def group(root: Path, name: str, **limits: str) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    for file, limit in limits.items():
        (root / name / file.replace("_max", ".max").replace("__", ".")).write_text(f"{limit}\n")


def test_limits_of_all_groups_above_hold(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/jobs/mine\n")
    group(root, "jobs/mine", memory_max="max")
    group(root, "jobs", memory_max="3000")
    group(root, "", memory_max="5000")
    assert sorted(cgroup_limits(own, root)) == [3000, 5000]


def test_limits_of_version_1(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("5:cpu,cpuacct:/a\n4:memory:/docker/a:b\n0::/\n")
    # In a container, its own group appears as the root.
    group(root, "memory", memory__limit_in_bytes="7000")
    assert list(cgroup_limits(own, root)) == [7000]


def test_no_groups_no_limits(tmp_path: Path) -> None:
    assert list(cgroup_limits(tmp_path / "own", tmp_path)) == []


def test_a_machine_without_limits_has_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "cgroup_limits", lambda: iter(()))
    assert memory.memory_of(CPU) == psutil.virtual_memory().total
    monkeypatch.setattr(memory, "cgroup_limits", lambda: iter((7_000,)))
    assert memory.memory_of(CPU) == 7_000
