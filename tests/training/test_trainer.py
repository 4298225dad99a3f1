"""Steps that can be stopped and resumed anywhere, cut up in any way, and are the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_cli.base.errors import ConfigError, TrainingError
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import EpochBatches, collate
from transformer_cli.data.shards import ShardedText, plan_epoch
from transformer_cli.data.store import EncodedText, Lengths, TokenArray
from transformer_cli.model.transformer import Transformer, build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, TrainingState, save_checkpoint
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.loss import Losses
from transformer_cli.training.trainer import StepResult, Trainer

TOKENS = 12
BETA1 = 0.9

Tensors = dict[str, Tensor]


def text_of(*lengths: tuple[int, int]) -> EncodedText:
    """Sentences of these lengths, each different."""

    def ids(number: int, length: int) -> list[int]:
        return [4 + (number * 5 + place * 3) % (TOKENS - 4) for place in range(length)]

    return EncodedText(
        TokenArray.from_sentences(ids(number, src) for number, (src, _) in enumerate(lengths)),
        TokenArray.from_sentences(ids(number + 1, tgt) for number, (_, tgt) in enumerate(lengths)),
    )


# Two to a batch of 12 tokens: five batches an epoch.
TEXT = text_of((3, 5), (4, 5), (5, 5), (2, 5), (5, 4), (1, 5), (5, 3), (5, 2), (4, 5), (5, 5))


def config(dropout: float = 0.0, seed: int = 1, **training: Any) -> Config:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": dropout}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    settings = {
        "batch_tokens": 12,
        "epochs": 3,
        "betas": (BETA1, 0.98),
        "schedule": {"kind": "cosine", "peak": 0.01, "warmup": 4},
    }
    return Config.model_validate(
        {
            "seed": seed,
            "data": {"kind": "toy"},
            "tokenizer": {"kind": "words"},
            "model": sizes | layers,
            "training": settings | training,
        }
    )


def trainer_of(settings: Config, text: ShardedText = TEXT, weights: int = 1) -> Trainer:
    """A trainer of a new model, with its weights drawn by the seed ``weights``."""
    model = build_model(settings.model, TOKENS, TOKENS, PAD_ID, weights)
    return Trainer(model, text, settings, torch.float32)


def take(trainer: Trainer, steps: int) -> list[StepResult]:
    taken = list(islice(trainer.steps(), steps))
    assert len(taken) == steps
    return taken


def weights(trainer: Trainer) -> Tensors:
    return {name: weight.clone() for name, weight in weights_of(trainer.model).items()}


def assert_same_bits(tensors: Tensors, others: Tensors) -> None:
    assert tensors.keys() == others.keys()
    different = [name for name in tensors if not torch.equal(tensors[name], others[name])]
    assert different == []


def assert_same(trainer: Trainer, other: Trainer) -> None:
    assert trainer.state() == other.state()
    assert_same_bits(weights(trainer), weights(other))
    assert_same_bits(weights_of(trainer.eval_model), weights_of(other.eval_model))
    assert_same_bits(trainer.optimizer.state(), other.optimizer.state())


def numbers(progress: StepResult) -> tuple[Any, ...]:
    sums = (progress.loss, progress.nll_loss, progress.tgt_tokens)
    return (progress.step, progress.epoch, progress.ends_epoch, progress.learning_rate, *sums)


def first_gradient(settings: Config, text: EncodedText = TEXT) -> Tensors:
    """The gradient of the first step: Adam's first moment is then 1 - beta1 of it."""
    trainer = trainer_of(settings, text)
    take(trainer, 1)
    prefix = "exp_avg."
    return {
        name.removeprefix(prefix): moment / (1.0 - BETA1)
        for name, moment in trainer.optimizer.state().items()
        if name.startswith(prefix)
    }


def norm(gradient: Tensors) -> float:
    return float(torch.stack([each.norm() for each in gradient.values()]).norm())


# --- resuming -------------------------------------------------------------------------------------


LEVERS: dict[str, Any] = {"rdrop_alpha": 2.0, "ema_decay": 0.6}


@pytest.mark.parametrize(
    ("accumulate", "levers"),
    [
        (1, {}),
        (2, LEVERS),
        pytest.param(1, LEVERS, marks=pytest.mark.long),
        pytest.param(2, {}, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("where", ["first step", "mid-epoch", "epoch's end", "last but one"])
def test_a_resumed_run_is_the_uninterrupted_one(
    tmp_path: Path, accumulate: int, where: str, levers: dict[str, Any]
) -> None:
    settings = config(dropout=0.3, accumulate=accumulate, **levers)
    straight = trainer_of(settings)
    per_epoch = straight.steps_per_epoch
    assert per_epoch == {1: 5, 2: 3}[accumulate]  # the last of 3 has one batch to accumulate
    stop = {
        "first step": 1,
        "mid-epoch": per_epoch + 2,
        "epoch's end": per_epoch,
        "last but one": 3 * per_epoch - 1,
    }[where]
    progress = [numbers(each) for each in straight.steps()]

    interrupted = trainer_of(settings)
    before = [numbers(each) for each in take(interrupted, stop)]
    path = save_checkpoint(
        tmp_path,
        weights_of(interrupted.eval_model),
        interrupted.optimizer.state(),
        interrupted.state(),
        tokenizer="",
    )

    torch.rand(13)
    checkpoint = Checkpoint.open(path, tokenizer="")
    resumed = trainer_of(settings, weights=2)
    load_weights(resumed.eval_model, checkpoint.load_weights())
    resumed.restore(checkpoint.load_state(), checkpoint.load_optimizer())
    assert_same(resumed, interrupted)
    after = [numbers(each) for each in resumed.steps()]

    assert before + after == progress
    assert_same(resumed, straight)


def test_the_same_trainer_goes_on_where_its_caller_left_off() -> None:
    straight, paused = trainer_of(config(dropout=0.3)), trainer_of(config(dropout=0.3))
    take(straight, 8)
    for steps in (4, 1, 3):  # within the epoch, to its end, into the next
        take(paused, steps)
    assert_same(paused, straight)


def test_nothing_but_its_state_decides_a_step() -> None:
    alone, disturbed = trainer_of(config(dropout=0.3)), trainer_of(config(dropout=0.3))
    take(alone, 7)
    for number, _ in enumerate(islice(disturbed.steps(), 7)):
        torch.manual_seed(number)
        torch.rand(number)
        disturbed.model.eval()  # as validation does
        with torch.no_grad():
            disturbed.model(torch.tensor([[4, 2]]), torch.tensor([[1, 5]]))
    assert_same(disturbed, alone)


# With a rate too small to change a weight, losses differ by what dropout drew.
STILL = {"kind": "constant", "peak": 1e-30}
ONE_PAIR = text_of((5, 5))


def first_losses(seed: int) -> list[float]:
    trainer = trainer_of(config(dropout=0.3, seed=seed, schedule=STILL), ONE_PAIR)
    return [each.loss for each in trainer.steps()]


def test_each_step_drops_out_anew() -> None:
    losses = first_losses(seed=1)
    assert len(set(losses)) == len(losses) == 3
    assert losses == first_losses(seed=1)


def test_each_seed_drops_out_otherwise() -> None:
    assert not set(first_losses(seed=1)) & set(first_losses(seed=2))


# --- gradients ------------------------------------------------------------------------------------

# Four pairs of 3 tokens a side with their marks, and four of 7: 40 target tokens.
UNEVEN = text_of(*[(2, 2)] * 4, *[(6, 6)] * 4)
WHOLE: dict[str, Any] = {"batch_tokens": 56, "clip_norm": None}
HALVES: dict[str, Any] = {"batch_tokens": 28, "accumulate": 2, "clip_norm": None}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rdrop_alpha", [0.0, 2.0])
def test_two_half_batches_give_the_gradient_of_the_whole(
    smoothing: float, rdrop_alpha: float
) -> None:
    assert len(plan_epoch(UNEVEN.lengths, 56, seed=1, epoch=0)) == 1
    assert len(plan_epoch(UNEVEN.lengths, 28, seed=1, epoch=0)) == 2
    loss: dict[str, Any] = {"label_smoothing": smoothing, "rdrop_alpha": rdrop_alpha}
    whole = first_gradient(config(**WHOLE, **loss), UNEVEN)
    halves = first_gradient(config(**HALVES, **loss), UNEVEN)
    torch.testing.assert_close(halves, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cut", [WHOLE, HALVES])
def test_the_loss_is_a_mean_over_the_target_tokens_of_the_step(cut: dict[str, Any]) -> None:
    settings = config(**cut, label_smoothing=0.0)
    found = first_gradient(settings, UNEVEN)
    (progress,) = take(trainer_of(settings, UNEVEN), 1)

    model = trainer_of(settings, UNEVEN).model
    (all_pairs,) = plan_epoch(UNEVEN.lengths, 56, seed=1, epoch=0)
    batch = collate(UNEVEN.take(all_pairs))
    logits = model(batch.src, batch.tgt_in).flatten(0, 1)
    loss = F.cross_entropy(logits, batch.tgt_out.flatten(), ignore_index=PAD_ID)
    loss.backward()  # type: ignore[no-untyped-call]
    expected = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}

    assert progress.tgt_tokens == 4 * 3 + 4 * 7
    for found_sum in (progress.loss, progress.nll_loss):
        assert found_sum / 40 == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_losses_are_not_lost_to_rounding_in_a_large_sum() -> None:
    large = 2.0**30  # beside which float32 would lose a fraction of a loss
    trainer, other = (trainer_of(config()) for _ in range(2))
    other.window = [large + each for each in other.window]
    for each in (trainer, other):
        list(islice(each.steps(), 2))
    assert [each - large for each in other.window] == pytest.approx(trainer.window, rel=1e-6)


def test_gradients_are_clipped_to_the_norm() -> None:
    free = first_gradient(config(clip_norm=None))
    length = norm(free)
    assert length > 0.1
    clipped = first_gradient(config(clip_norm=length / 2))
    assert norm(clipped) == pytest.approx(length / 2, rel=1e-4)
    halved = {name: each / 2 for name, each in free.items()}
    torch.testing.assert_close(clipped, halved, rtol=1e-3, atol=1e-7)
    assert_same_bits(first_gradient(config(clip_norm=length * 2)), free)


def test_the_whole_step_is_clipped_and_not_its_parts() -> None:
    length = norm(first_gradient(config(**WHOLE), UNEVEN))
    clipped = first_gradient(config(**HALVES | {"clip_norm": length / 3}), UNEVEN)
    assert norm(clipped) == pytest.approx(length / 3, rel=1e-4)


# --- two readings ---------------------------------------------------------------------------------


def test_without_dropout_two_readings_train_as_one() -> None:
    # An epsilon far above the noise in gradients that are zero, which Adam would make steps of.
    once, twice = (trainer_of(config(rdrop_alpha=each, eps=1e-3)) for each in (0.0, 5.0))
    before = weights(once)
    steps_once, steps_twice = take(once, 6), take(twice, 6)
    for one, other in zip(steps_once, steps_twice, strict=True):
        assert numbers(other) == pytest.approx(numbers(one), rel=1e-5)
    after = weights(once)
    assert max((after[name] - before[name]).abs().max().item() for name in before) > 1e-2
    torch.testing.assert_close(weights(twice), after, rtol=1e-4, atol=1e-5)


def test_with_dropout_what_differs_between_readings_costs_as_much_as_is_said() -> None:
    # The same draws at the same step: losses differ by what rdrop_alpha multiplies alone.
    steps = [
        take(trainer_of(config(dropout=0.3, rdrop_alpha=each)), 1)[0] for each in (1.0, 2.0, 4.0)
    ]
    low, middle, high = (each.loss for each in steps)
    assert middle - low > 0.01
    assert high - middle == pytest.approx(2.0 * (middle - low), rel=1e-3)
    assert len({each.nll_loss for each in steps}) == 1


def test_with_dropout_consistency_changes_what_is_learned() -> None:
    trained = []
    for rdrop_alpha in (1.0, 2.0):
        trainer = trainer_of(config(dropout=0.3, rdrop_alpha=rdrop_alpha))
        take(trainer, 2)
        trained.append(weights(trainer))
    assert all(not torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


def test_the_second_reading_is_of_the_same_rows() -> None:
    once, twice = (trainer_of(config(rdrop_alpha=each, epochs=1)) for each in (0.0, 1.0))
    assert list(batches_seen(twice)) == [rows + rows for rows in batches_seen(once)]


def test_target_tokens_are_counted_once() -> None:
    once, twice = (trainer_of(config(rdrop_alpha=each)) for each in (0.0, 1.0))
    assert [each.tgt_tokens for each in take(twice, 5)] == [
        each.tgt_tokens for each in take(once, 5)
    ]


# --- the average of the weights -------------------------------------------------------------------

# Of ten weights one is new at first: (1 + step) / (10 + step) reaches 0.4 at step 5.
AVERAGED: dict[str, Any] = {"dropout": 0.3, "ema_decay": 0.4}


def test_without_averaging_the_model_itself_is_kept() -> None:
    trainer = trainer_of(config())
    assert trainer.eval_model is trainer.model
    take(trainer, 1)
    kinds = {name.partition(".")[0] for name in trainer.optimizer.state()}
    assert kinds == {"exp_avg", "exp_avg_sq"}


def test_what_is_kept_is_the_moving_average_of_the_weights() -> None:
    trainer = trainer_of(config(**AVERAGED))
    assert trainer.eval_model is not trainer.model
    expected = {name: each.double() for name, each in weights(trainer).items()}
    assert_same_bits(weights_of(trainer.eval_model), weights(trainer))
    decays = []
    for progress in trainer.steps():
        decay = min(0.4, (1 + progress.step) / (10 + progress.step))
        decays.append(decay)
        for name, weight in weights(trainer).items():
            expected[name] = expected[name] * decay + weight.double() * (1.0 - decay)
        kept = {name: each.double() for name, each in weights_of(trainer.eval_model).items()}
        torch.testing.assert_close(kept, expected, rtol=1e-5, atol=1e-6)
    assert decays[0] == 2 / 11
    assert 0.4 not in decays[:4]
    assert set(decays[4:]) == {0.4}
    assert any(
        not torch.allclose(weight, weights_of(trainer.eval_model)[name], rtol=1e-3, atol=1e-4)
        for name, weight in weights(trainer).items()
    )


def test_averaging_changes_nothing_in_training() -> None:
    plain, averaged = trainer_of(config(dropout=0.3)), trainer_of(config(**AVERAGED))
    losses = [numbers(each) for each in plain.steps()]
    assert [numbers(each) for each in averaged.steps()] == losses
    assert_same_bits(weights(averaged), weights(plain))
    moments = averaged.optimizer.state()
    assert_same_bits(
        {name: moments[name] for name in plain.optimizer.state()}, plain.optimizer.state()
    )


def test_beside_an_average_the_weights_are_saved_with_the_moments() -> None:
    trainer = trainer_of(config(**AVERAGED))
    take(trainer, 3)
    prefix = "weight."
    saved = {
        name.removeprefix(prefix): each
        for name, each in trainer.optimizer.state().items()
        if name.startswith(prefix)
    }
    assert_same_bits(saved, weights(trainer))


def test_tied_weights_stay_tied_in_the_average_and_apart_from_the_model() -> None:
    trainer = trainer_of(config(**AVERAGED))
    take(trainer, 3)
    state, moments = trainer.state(), trainer.optimizer.state()
    resumed = trainer_of(config(**AVERAGED), weights=2)
    load_weights(resumed.eval_model, weights_of(trainer.eval_model))
    resumed.restore(TrainingState(**state), moments)
    take(resumed, 1)
    for each in (trainer, resumed):
        assert each.eval_model.output.weight is each.eval_model.tgt_embedding.tokens.weight
        assert each.model.output.weight is each.model.tgt_embedding.tokens.weight
        of_kept, of_model = (
            {weight.data_ptr() for weight in model.parameters()}
            for model in (each.eval_model, each.model)
        )
        assert not of_kept & of_model


def test_the_average_computes_with_its_own_weights() -> None:
    settings = config(**AVERAGED)
    trainer = trainer_of(settings)
    take(trainer, 3)
    rebuilt = build_model(settings.model, TOKENS, TOKENS, PAD_ID, seed=2)
    load_weights(rebuilt, weights_of(trainer.eval_model))
    pair = (torch.tensor([[4, 7, 2]]), torch.tensor([[1, 5]]))
    logits = trainer.eval_model.eval()(*pair)
    assert torch.equal(logits, rebuilt.eval()(*pair))
    assert not torch.equal(logits, trainer.model.eval()(*pair))
    assert not logits.requires_grad


# --- what is no number, and what does not fit ----------------------------------------------------


def spoil(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Have some steps' gradients hold a NaN."""
    accumulate = trainer._gradients.accumulate

    def spoilt(step: int, *arguments: Any) -> Losses:
        losses = accumulate(step, *arguments)
        if step in steps:
            gradient = trainer.model.output.bias.grad
            assert gradient is not None
            gradient[3] = torch.nan
        return losses

    monkeypatch.setattr(trainer._gradients, "accumulate", spoilt)


def test_a_gradient_that_is_no_number_stops_before_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer, untouched = trainer_of(config()), trainer_of(config())
    spoil(trainer, monkeypatch, 3)
    take(untouched, 2)
    said = r"^step 3 \(epoch 1, batch 3\): the loss is [0-9.]+ and the gradient norm is nan; "
    with pytest.raises(TrainingError, match=said):
        list(trainer.steps())
    assert_same_bits(weights(trainer), weights(untouched))
    assert_same_bits(trainer.optimizer.state(), untouched.optimizer.state())


def test_so_many_steps_may_be_left_out_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(config(skip_nonfinite=2, epochs=4))
    spoil(trainer, monkeypatch, 3, 7, 11)
    before: Tensors = {}
    skipped: list[int] = []
    for progress in islice(trainer.steps(), 10):
        if not progress.is_finite:
            skipped.append(progress.step)
            assert (progress.loss, progress.nll_loss) == (0.0, 0.0)
            assert_same_bits(weights(trainer), before)
        before = weights(trainer)
    assert skipped == [3, 7]
    with pytest.raises(TrainingError, match=r"^step 11 .*skip_nonfinite=12$"):
        next(trainer.steps())


def test_a_step_left_out_does_not_count_for_adam_after_resuming_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = config(skip_nonfinite=1)
    straight = trainer_of(settings)
    spoil(straight, monkeypatch, 3)
    take(straight, 5)
    resumed = trainer_of(settings, weights=2)
    load_weights(resumed.model, weights(straight))
    moments = {name: moment.clone() for name, moment in straight.optimizer.state().items()}
    resumed.restore(TrainingState(**straight.state()), moments)
    expected = [numbers(each) for each in straight.steps()]
    assert [numbers(each) for each in resumed.steps()] == expected
    assert_same(straight, resumed)


def test_fewer_steps_than_were_left_out_cannot_be_allowed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = trainer_of(config(skip_nonfinite=1))
    spoil(trainer, monkeypatch, 3)
    take(trainer, 5)
    state, moments = TrainingState(**trainer.state()), trainer.optimizer.state()
    with pytest.raises(
        ConfigError, match=r"skip_nonfinite: 0, but .* 1 steps .*; set it to at least 1$"
    ):
        trainer_of(config()).restore(state, moments)
    finished = state.model_copy(update={"step": trainer.total_steps})
    trainer_of(config()).restore(finished, moments)


def out_of_memory_above(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Stand for a device that has memory for so many rows of a batch."""
    hidden_states = Transformer.hidden_states

    def limited(model: Transformer, src: Tensor, tgt_in: Tensor) -> Tensor:
        if len(src) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        return hidden_states(model, src, tgt_in)

    monkeypatch.setattr(Transformer, "hidden_states", limited)


def test_a_step_that_does_not_fit_is_halved_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(batch_tokens=48, accumulate=2)
    whole = trainer_of(settings)
    expected = [numbers(each) for each in whole.steps()]
    out_of_memory_above(monkeypatch, 2)
    halved = trainer_of(settings)
    found = list(halved.steps())
    assert found[0].micro_batches == found[-1].micro_batches == 4
    for one, other in zip(map(numbers, found), expected, strict=True):
        assert one[:4] == other[:4]
        assert one[4:] == pytest.approx(other[4:], rel=1e-5)
    for name, weight in weights(halved).items():
        # Keys' biases have no effect: their gradients are rounding errors, made steps by Adam.
        if not name.endswith("attention.key.bias"):
            torch.testing.assert_close(weight, weights(whole)[name], rtol=1e-4, atol=1e-6)


def test_micro_batches_are_part_of_the_state() -> None:
    settings = config(dropout=0.3, batch_tokens=48)
    straight = trainer_of(settings)
    straight._gradients.micro_batches = 2
    take(straight, 2)
    resumed = trainer_of(settings)
    load_weights(resumed.model, weights(straight))
    moments = {name: moment.clone() for name, moment in straight.optimizer.state().items()}
    resumed.restore(TrainingState(**straight.state()), moments)
    expected = [numbers(each) for each in straight.steps()]
    assert [numbers(each) for each in resumed.steps()] == expected


def test_a_row_that_does_not_fit_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out_of_memory_above(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        list(trainer_of(config(batch_tokens=48)).steps())


def test_other_errors_are_not_taken_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Transformer, "hidden_states", broken)
    trainer = trainer_of(config())
    with pytest.raises(RuntimeError, match="shapes"):
        list(trainer.steps())
    assert trainer._gradients.micro_batches == 1


# --- ranks ----------------------------------------------------------------------------------------


def test_ranks_share_each_epochs_batches_out() -> None:
    taken: list[list[bytes]] = []
    for size in (1, 2, 3):
        seen = [
            batch.src.numpy().tobytes()
            for rank in range(size)
            for epoch in range(2)
            for batch in EpochBatches(TEXT, 12, 1).iter_epoch(epoch, rank, size)
        ]
        taken.append(sorted(seen))
    assert taken[0] == taken[1] == taken[2]


def test_a_run_refuses_another_number_of_batches_a_step() -> None:
    begun = trainer_of(config(accumulate=4))
    take(begun, 1)
    with pytest.raises(ConfigError, match=r"trained with 4; set training.accumulate=4$"):
        trainer_of(config(accumulate=3)).restore(
            TrainingState(**begun.state()), begun.optimizer.state()
        )


# --- rates and counts -----------------------------------------------------------------------------

SCHEDULES = [
    {"kind": "noam", "factor": 0.5, "warmup": 3},
    {"kind": "constant", "peak": 0.01, "warmup": 2},
    {"kind": "linear", "peak": 0.01, "warmup": 2},
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: str(each["kind"]))
def test_each_step_has_its_rate(schedule: dict[str, Any]) -> None:
    settings = config(schedule=schedule, max_steps=7)
    trainer = trainer_of(settings)
    for progress in trainer.steps():
        expected = settings.training.schedule.rate(progress.step, total_steps=7, d_model=16)
        assert progress.learning_rate == expected
        (part,) = trainer.optimizer._parts
        assert {group["lr"] for group in part.optimizer.param_groups} == {expected}
    assert trainer.step == 7


def test_the_first_step_moves_weights_by_the_rate() -> None:
    # Adam's first step is rate * g / (|g| + eps): the rate, wherever there is some gradient.
    trainer = trainer_of(config(schedule={"kind": "constant", "peak": 0.01}))
    before = weights(trainer)
    take(trainer, 1)
    after = weights(trainer)
    moved = torch.cat([(after[name] - before[name]).abs().flatten() for name in before])
    assert moved.max().item() == pytest.approx(0.01, rel=1e-3)
    assert moved.median().item() == pytest.approx(0.01, rel=1e-2)


@pytest.mark.parametrize(
    ("limits", "total"),
    [
        ({"epochs": 3}, 15),
        ({"epochs": 3, "max_steps": 7}, 7),
        ({"epochs": 3, "max_steps": 99}, 15),
        ({"epochs": 3, "accumulate": 2}, 9),
        ({"epochs": 2, "accumulate": 9}, 2),
    ],
)
def test_training_ends_by_epochs_or_steps(limits: dict[str, Any], total: int) -> None:
    trainer = trainer_of(config(**limits))
    assert trainer.total_steps == total
    assert [progress.step for progress in trainer.steps()] == list(range(1, total + 1))
    assert list(trainer.steps()) == []


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_epoch_has_all_target_tokens(accumulate: int) -> None:
    trainer = trainer_of(config(accumulate=accumulate, epochs=2))
    steps = list(trainer.steps())
    for epoch in range(2):
        of_epoch = steps[epoch * len(steps) // 2 :][: len(steps) // 2]
        assert sum(each.tgt_tokens for each in of_epoch) == len(TEXT.tgt.ids) + len(TEXT)
        assert [each.ends_epoch for each in of_epoch] == [False] * (len(of_epoch) - 1) + [True]
        assert [each.epoch for each in of_epoch] == [epoch] * (len(of_epoch) - 1) + [epoch + 1]


def batches_seen(trainer: Trainer) -> Iterator[list[list[int]]]:
    """The source rows of each step's batch."""
    seen: list[list[list[int]]] = []
    embedding = trainer.model.src_embedding
    embedding.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].tolist()))
    for _ in trainer.steps():
        yield seen.pop()


def test_batches_are_those_of_the_plan() -> None:
    settings = config(seed=6, epochs=2)
    planned = [
        collate(TEXT.take(indices)).src.tolist()
        for epoch in range(2)
        for indices in plan_epoch(TEXT.lengths, settings.training.batch_tokens, 6, epoch)
    ]
    assert list(batches_seen(trainer_of(settings))) == planned


def test_the_state_is_three_numbers() -> None:
    trainer = trainer_of(config(accumulate=2))
    states = [(trainer.step, trainer.epoch, trainer.batch)]
    for _ in trainer.steps():
        state = trainer.state()
        states.append((state["step"], state["epoch"], state["batch"]))
    assert states[:5] == [(0, 0, 0), (1, 0, 2), (2, 0, 4), (3, 1, 0), (4, 1, 2)]
    assert states[-1] == (9, 3, 0)


def test_a_model_learns_to_copy_its_few_pairs() -> None:
    pairs = [[4 + (number + place) % 8 for place in range(4)] for number in range(8)]
    store = TokenArray.from_sentences(pairs)
    settings = config(
        batch_tokens=40, epochs=120, schedule={"kind": "linear", "peak": 0.01, "warmup": 10}
    )
    steps = list(trainer_of(settings, EncodedText(store, store)).steps())
    losses = [each.nll_loss / each.tgt_tokens for each in steps]
    assert losses[0] > 1.5
    assert losses[-1] < 0.2


# --- several shards -------------------------------------------------------------------------------


@dataclass(frozen=True)
class InShards:
    """A corpus in shards, as a store of many pairs is seen."""

    parts: tuple[EncodedText, ...]

    @property
    def num_shards(self) -> int:
        return len(self.parts)

    def shard_lengths(self, shard: int) -> Lengths:
        return self.parts[shard].lengths

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        return self.parts[shard]


# 5, 3 and 1 batches of 12 tokens: 9 an epoch, so that steps of two batches span shards.
SHARDS = InShards((TEXT, text_of(*[(5, 5)] * 6), text_of((2, 3), (3, 2))))


def test_steps_may_span_shards_and_an_epoch_has_all_of_them() -> None:
    trainer = trainer_of(config(accumulate=2, epochs=2), SHARDS)
    assert (trainer.steps_per_epoch, trainer.total_steps) == (5, 10)
    steps = list(trainer.steps())
    tokens = sum(len(part.tgt.ids) + len(part) for part in SHARDS.parts)
    for of_epoch in (steps[:5], steps[5:]):
        assert sum(each.tgt_tokens for each in of_epoch) == tokens
        assert [each.ends_epoch for each in of_epoch] == [False] * 4 + [True]


@cache
def trained_on_shards() -> tuple[Trainer, list[tuple[Any, ...]]]:
    trainer = trainer_of(config(dropout=0.3, accumulate=2, epochs=2), SHARDS)
    return trainer, [numbers(progress) for progress in trainer.steps()]


@pytest.mark.parametrize(
    "stop",
    [n if n in (1, 4, 5, 8) else pytest.param(n, marks=pytest.mark.long) for n in range(1, 10)],
)
def test_training_goes_on_from_within_any_shard(stop: int) -> None:
    straight, expected = trained_on_shards()
    settings = config(dropout=0.3, accumulate=2, epochs=2)
    first = trainer_of(settings, SHARDS)
    take(first, stop)
    second = trainer_of(settings, SHARDS, weights=2)
    load_weights(second.model, weights(first))
    second.restore(TrainingState(**first.state()), first.optimizer.state())
    assert [numbers(progress) for progress in second.steps()] == expected[stop:]
    assert_same(second, straight)
