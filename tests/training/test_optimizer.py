"""Each optimizer of the registry trains, resumes to the same bits, and skips what is not finite."""

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from test_trainer import assert_same, config, numbers, spoil, take, trainer_of, weights

from transformer_cli.config.schema import TrainingConfig
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.optimizer import OPTIMIZERS, kind_of

MUON: dict[str, Any] = {"optimizer": "muon", "ema_decay": 0.9}


def test_the_registry_has_what_the_settings_may_name() -> None:
    assert OPTIMIZERS.keys() == set(get_args(TrainingConfig.model_fields["optimizer"].annotation))


def test_muon_without_a_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"training\.optimizer: muon .* both are frozen; use adam"):
        config(freeze=["encoder", "decoder"], **MUON)


def test_muon_has_the_hidden_matrices_and_adam_the_rest() -> None:
    settings = config(**MUON)
    model = build_model(settings.model, 12, 12, PAD_ID, 1)
    muon = {
        name
        for name, weight in model.named_parameters()
        if kind_of(settings.training, name, weight) is OPTIMIZERS["muon"]
    }
    assert {name.partition(".")[0] for name in muon} == {"encoder", "decoder"}
    assert "encoder.0.self_attention.query.weight" in muon
    state = trainer_of(settings).optimizer.state()
    assert {name.partition(".")[2] for name in state if name.startswith("momentum")} == muon
    assert "exp_avg.tgt_embedding.tokens.weight" in state
    assert not any(name.startswith("exp_avg") and name.partition(".")[2] in muon for name in state)


@pytest.mark.long
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_it_lowers_the_loss(optimizer: str) -> None:
    results = take(trainer_of(config(optimizer=optimizer, epochs=12)), 60)
    first, last = (sum(each.loss for each in part) for part in (results[:5], results[-5:]))
    assert last < 0.6 * first


def test_muons_first_step_is_orthogonal_and_as_large_as_adams() -> None:
    before = weights(trainer_of(config(**MUON)))
    trainer = trainer_of(config(**MUON))
    (result,) = take(trainer, 1)
    name = "encoder.0.self_attention.query.weight"
    change = (before[name] - weights(trainer)[name]) / result.learning_rate
    singular = torch.linalg.svdvals(change) / (0.2 * max(change.shape) ** 0.5)
    assert singular.max() < 1.3
    assert singular[: len(singular) // 2].min() > 0.5


@pytest.mark.long_cases
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("steps", [1, 7])
def test_resuming_is_exact(tmp_path: Path, optimizer: str, steps: int) -> None:
    settings = config(dropout=0.3, **MUON | {"optimizer": optimizer})
    straight = trainer_of(settings)
    take(straight, steps)
    model = {name: each.detach() for name, each in straight.eval_model.named_parameters()}
    save_checkpoint(tmp_path, model, straight.optimizer.state(), straight.state(), "tokenizer")
    checkpoint = Checkpoint.open(tmp_path / f"step-{steps:08d}")
    resumed = trainer_of(settings, weights=2)
    for name, weight in resumed.eval_model.named_parameters():
        weight.data.copy_(checkpoint.load_weights()[name])
    resumed.restore(checkpoint.load_state(), checkpoint.load_optimizer())
    assert list(map(numbers, resumed.steps())) == list(map(numbers, straight.steps()))
    assert_same(straight, resumed)


def test_muon_skips_a_step_that_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(config(skip_nonfinite=1, **MUON))
    spoil(trainer, monkeypatch, 3)
    take(trainer, 2)
    before = weights(trainer) | {
        name: each.clone() for name, each in trainer.optimizer.state().items()
    }
    take(trainer, 1)
    after = weights(trainer) | trainer.optimizer.state()
    assert all(torch.equal(after[name], before[name]) for name in before)
    take(trainer, 1)
    assert not torch.equal(weights(trainer)["output.bias"], before["output.bias"])
