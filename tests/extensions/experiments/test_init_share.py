"""The average with the initial weights: its values, and that it survives resuming."""

from itertools import islice

import torch
from torch import Tensor
from validating import refusal

from transformer_cli.config.schema import Config
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.model.transformer import build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import TrainingState
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.trainer import Trainer

TOKENS = 12
SETTINGS = Config.model_validate(
    {
        "init": "runs/first",
        "data": {"kind": "toy"},
        "tokenizer": {"kind": "words"},
        "model": {
            "d_model": 16,
            "num_heads": 2,
            "d_ff": 24,
            "dropout": 0.3,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
        },
        "training": {
            "init_share": 0.3,
            "batch_tokens": 12,
            "epochs": 3,
            "schedule": {"kind": "cosine", "peak": 0.01, "warmup": 4},
        },
    }
)
SIDE = TokenArray.from_sentences(
    [4 + (5 * row + place) % 8 for place in range(5)] for row in range(8)
)


def trainer_of(weights: int = 1) -> Trainer:
    """A trainer of a new model, whose weights are drawn with the seed ``weights``."""
    model = build_model(SETTINGS.model, TOKENS, TOKENS, PAD_ID, weights)
    return Trainer(model, EncodedText(SIDE, SIDE), SETTINGS, torch.float32)


def copy_of(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in weights.items()}


def test_the_average_has_a_share_of_the_initial_weights() -> None:
    trainer = trainer_of()
    first = copy_of(weights_of(trainer.model))
    for _ in trainer.steps():
        now = weights_of(trainer.model)
        expected = {n: 0.3 * first[n] + 0.7 * weight for n, weight in now.items()}
        torch.testing.assert_close(weights_of(trainer.eval_model), expected)
    assert any(not torch.equal(weight, first[n]) for n, weight in expected.items())


def test_the_initial_weights_survive_resuming() -> None:
    straight, resumed = trainer_of(), trainer_of(weights=2)
    list(islice(straight.steps(), 3))
    load_weights(resumed.eval_model, weights_of(straight.eval_model))
    resumed.restore(TrainingState(**straight.state()), copy_of(straight.optimizer.state()))
    losses = [[step.loss for step in each.steps()] for each in (resumed, straight)]
    assert losses[0] == losses[1]
    averages = [weights_of(each.eval_model) for each in (resumed, straight)]
    assert all(torch.equal(weight, averages[1][name]) for name, weight in averages[0].items())


def test_it_needs_initial_weights_and_no_other_average() -> None:
    required = "data: {kind: toy}\ntokenizer: {kind: words}\n"
    alone = refusal(required + "training: {init_share: 0.5}\n")
    assert "training.init_share: needs init, the run that training starts from" in alone
    both = "init: a\ntraining: {init_share: 0.5, ema_decay: 0.9}"
    assert "training.init_share: ema_decay is another average" in refusal(required + both)
