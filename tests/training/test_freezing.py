"""Frozen parts keep their bytes, and the others train as if nothing were frozen."""

from pathlib import Path
from typing import Any

import pytest
import torch
from test_trainer import (
    LEVERS,
    TEXT,
    TOKENS,
    Tensors,
    assert_same,
    assert_same_bits,
    config,
    numbers,
    take,
    trainer_of,
)

from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import collate
from transformer_cli.data.shards import plan_epoch
from transformer_cli.model.transformer import build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.trainer import Trainer

MODELS: dict[str, dict[str, Any]] = {
    "none": {"tying": "none", "positions": "learned", "max_positions": 300},
    "output": {"tying": "output", "norm": "post"},
    "all": {"tying": "all"},
}
PARTS = [["embeddings"], ["encoder"], ["decoder"], ["embeddings", "encoder"]]
FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16


def settings(tying: str, parts: list[str], **training: Any) -> Config:
    """Settings of a model of each form, in which ``parts`` are frozen."""
    plain = config(dropout=0.3, **training)
    tokenizer = {"kind": "sentencepiece", "vocab_size": TOKENS}  # a joint vocabulary
    sections = plain.model_dump() | {"init": "run", "tokenizer": tokenizer}
    sections["model"] |= MODELS[tying]
    sections["training"]["freeze"] = parts
    return Config.model_validate(sections)


def is_frozen(name: str, parts: list[str]) -> bool:
    """Say it by a weight's name; a tied output matrix goes by the name of its embedding."""
    module = name.partition(".")[0]
    part = "embeddings" if module.endswith("_embedding") else module.removesuffix("_norm")
    return part in parts


def bits(weights: Tensors) -> dict[str, bytes]:
    return {name: weight.numpy().tobytes() for name, weight in weights.items()}


@pytest.mark.long_cases
@pytest.mark.parametrize("tying", MODELS)
@pytest.mark.parametrize("parts", PARTS, ids="-".join)
def test_frozen_parts_keep_their_bytes_and_others_do_not(tying: str, parts: list[str]) -> None:
    made = settings(tying, parts, **LEVERS)
    model = build_model(made.model, TOKENS, TOKENS, PAD_ID, 1)
    before = bits(weights_of(model))
    trainer = Trainer(model, TEXT, made, BFLOAT16 if tying == "all" else FLOAT32)
    take(trainer, 3)
    for kept in (trainer.model, trainer.eval_model):
        after = bits(weights_of(kept))
        frozen = {name for name in before if after[name] == before[name]}
        assert frozen == {name for name in before if is_frozen(name, parts)}
    moments = {name.partition(".")[2] for name in trainer.optimizer.state() if "exp" in name}
    assert moments == before.keys() - frozen
    assert all(each.grad is None for each in model.parameters() if not each.requires_grad)


@pytest.mark.long
@pytest.mark.parametrize("tying", MODELS)
@pytest.mark.parametrize("parts", PARTS, ids="-".join)
@pytest.mark.parametrize("precision", [FLOAT32, BFLOAT16], ids=str)
def test_the_gradients_of_the_others_are_those_of_a_model_with_nothing_frozen(
    tying: str, parts: list[str], precision: torch.dtype
) -> None:
    batch = collate(TEXT.take(plan_epoch(TEXT.lengths, 12, seed=1, epoch=0)[0]))

    def gradients(freeze: list[str]) -> tuple[Tensors, float]:
        made = settings(tying, freeze, rdrop_alpha=1.0)
        model = build_model(made.model, TOKENS, TOKENS, PAD_ID, 1).train()
        model.freeze(freeze)
        step = GradientAccumulator(model, made.training, precision, 1, SINGLE_PROCESS)
        loss = step.accumulate(1, [batch], batch.tgt_tokens).loss.item()
        named = model.named_parameters()
        return {name: each.grad for name, each in named if each.grad is not None}, loss

    found, loss = gradients(parts)
    expected, same_loss = gradients([])
    assert loss == same_loss
    others = {name: each for name, each in expected.items() if not is_frozen(name, parts)}
    assert len(others) < len(expected)
    assert_same_bits(found, others)


def test_what_is_frozen_has_no_share_in_the_norm_that_is_clipped() -> None:
    free = settings("output", ["embeddings", "encoder"], clip_norm=None)
    clipped = settings("output", ["embeddings", "encoder"], clip_norm=0.01)
    norms = []
    for each in (free, clipped):
        trainer = trainer_of(each)
        take(trainer, 1)
        moments = trainer.optimizer.state()
        first = [moment for name, moment in moments.items() if name.startswith("exp_avg.")]
        norms.append(float(torch.stack([moment.norm() for moment in first]).norm()) / 0.1)
    assert norms[0] > 0.02
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


@pytest.mark.long_cases
@pytest.mark.parametrize("levers", [{}, LEVERS], ids=["plain", "levers"])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, levers: dict[str, Any]) -> None:
    made = settings("all", ["embeddings", "encoder"], **levers)
    straight, interrupted = trainer_of(made), trainer_of(made)
    steps = [numbers(each) for each in take(straight, 9)]
    take(interrupted, 4)
    path = save_checkpoint(
        tmp_path,
        weights_of(interrupted.eval_model),
        interrupted.optimizer.state(),
        interrupted.state(),
        tokenizer="",
    )
    checkpoint = Checkpoint.open(path, tokenizer="")
    assert checkpoint.load_weights().keys() == weights_of(straight.model).keys()
    resumed = trainer_of(made, weights=2)
    load_weights(resumed.eval_model, checkpoint.load_weights())
    resumed.restore(checkpoint.load_state(), checkpoint.load_optimizer())
    assert [numbers(each) for each in take(resumed, 5)] == steps[4:]
    assert_same(resumed, straight)


@pytest.mark.parametrize(
    ("init", "parts", "said"),
    [
        (None, ["encoder"], "training.freeze: random weights would stay random; set init to "),
        ("run", ["encoder", "embeddings", "decoder"], "training.freeze: all three parts are fro"),
    ],
)
def test_what_would_train_nothing_is_refused(init: str | None, parts: list[str], said: str) -> None:
    sections = config().model_dump() | {"init": init}
    sections["training"]["freeze"] = parts
    with pytest.raises(ValueError, match=said):
        Config.model_validate(sections)


def test_the_order_of_frozen_parts_is_no_difference() -> None:
    one = settings("all", ["encoder", "embeddings", "encoder"])
    assert one == settings("all", ["embeddings", "encoder"])
