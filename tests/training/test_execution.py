"""Training as a GPU does it, on the CPU: graphs from a tape, late reads and batches made ahead."""

from typing import Any

import numpy as np
import pytest
import torch
from graph_tape import capture_on_tape
from synchronisations import watch_operations
from test_trainer import (
    TEXT,
    assert_same,
    assert_same_bits,
    config,
    numbers,
    spoil,
    take,
    trainer_of,
    weights,
)

from transformer_cli.base.errors import TrainingError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.data.batches import Batch, EpochBatches, collate
from transformer_cli.model import linear
from transformer_cli.model.device import GraphPool
from transformer_cli.model.transformer import weights_of
from transformer_cli.runs.checkpoint import State
from transformer_cli.text.vocabulary import EOS_ID, PAD_ID
from transformer_cli.training import execution as execution_module
from transformer_cli.training.execution import Execution, StepGraphs
from transformer_cli.training.loss import GradientAccumulator
from transformer_cli.training.trainer import Trainer

DELAY = 3
LEVERS = [
    {},
    {"dropout": 0.3},
    {"dropout": 0.3, "accumulate": 2, "clip_norm": 0.1, "ema_decay": 0.9},
    {"dropout": 0.3, "rdrop_alpha": 2.0},
]
MULTIPLE_OF_ROWS = 8
MOST_LAUNCHES = 270


@pytest.fixture
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have trainers execute steps as on a GPU; return what was captured."""
    captured: list[str] = []

    def capture(pool: GraphPool, function: Any) -> Any:
        captured.append(function.__qualname__)
        return capture_on_tape(pool, function)

    def choose(*_: Any) -> Execution:
        return Execution(prefetch=2, read_delay=DELAY, graphs=True)

    monkeypatch.setattr(Execution, "choose", choose)
    monkeypatch.setattr(GraphPool, "capture", capture)
    # Its tensors cannot be recorded.
    monkeypatch.setattr(linear, "_can_use_onednn", lambda *_: False)
    return captured


def on_cpu(settings: dict[str, Any]) -> Trainer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_can_use_onednn", lambda *_: False)
        patch.setattr(Execution, "choose", lambda *_: Execution())
        trainer = trainer_of(config(**settings))
        trainer.finished = [numbers(each) for each in trainer.steps()]  # type: ignore[attr-defined]
    return trainer


@pytest.mark.long
@pytest.mark.parametrize("levers", LEVERS, ids=str)
def test_steps_are_those_of_the_cpu(like_a_gpu: list[str], levers: dict[str, Any]) -> None:
    expected = on_cpu(levers)
    trainer = trainer_of(config(**levers))
    found = [numbers(each) for each in trainer.steps()]
    # The rate is a float32 tensor instead of a Python number.
    for one, other in zip(found, expected.finished, strict=True):  # type: ignore[attr-defined]
        assert one == pytest.approx(other, rel=1e-5)
    for model in ("model", "eval_model"):
        for name, weight in weights_of(getattr(trainer, model)).items():
            # Keys' biases have no effect: their gradients are rounding errors, made steps by Adam.
            if not name.endswith("attention.key.bias"):
                other = weights_of(getattr(expected, model))[name]
                torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-6)
    shapes = {batch.shape for batch in EpochBatches(TEXT, 12, 1).iter_epoch(0)}
    # Each shape once, and the update.
    assert len(like_a_gpu) == len(shapes) + 1


@pytest.mark.long
def test_results_stay_what_they_were(like_a_gpu: list[str]) -> None:
    at_once, later = trainer_of(config(epochs=2)), trainer_of(config(epochs=2))
    expected = [numbers(each) for each in at_once.steps()]
    kept = list(later.steps())
    assert [numbers(each) for each in kept] == expected


@pytest.mark.long
def test_no_step_waits_for_the_device(like_a_gpu: list[str]) -> None:
    trainer = trainer_of(config(dropout=0.3, clip_norm=0.1, ema_decay=0.9))
    steps = trainer.steps()
    for _ in range(3):
        next(steps)
    with watch_operations() as watched:
        for _ in range(8):
            next(steps)
    allowed = "tolist in training/trainer.py:Trainer._read_reports"  # by then it is on the host
    assert set(watched.synchronisations) <= {allowed}


def test_operations_of_a_step_are_bounded() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_can_use_onednn", lambda *_: False)
        steps = trainer_of(config(dropout=0.3, clip_norm=0.1)).steps()
        next(steps)
        with watch_operations() as watched:
            next(steps)
    assert watched.launches <= MOST_LAUNCHES


def test_a_step_that_is_not_finite_changes_nothing_and_is_told_later(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(skip_nonfinite=1, ema_decay=0.9)
    trainer = trainer_of(settings)
    spoil(trainer, monkeypatch, 4)
    known: list[tuple[int, int]] = []
    before: dict[str, torch.Tensor] = {}
    for result in trainer.steps():
        known.extend((result.step, skipped) for skipped in result.skipped)
        if result.step == 3:
            before = weights(trainer) | state_of(trainer)
        if result.step == 4:
            assert (result.losses.loss.item(), result.is_finite.item()) == (0.0, False)
            assert_same_bits(weights(trainer) | state_of(trainer), before)
        if result.step == 5:
            assert not torch.equal(weights(trainer)["output.bias"], before["output.bias"])
    assert known == [(4 + DELAY, 4)]
    assert trainer.state()["skipped"] == 1


def state_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    averages = {f"average.{name}": each for name, each in weights_of(trainer.eval_model).items()}
    copies = {
        name: each.clone() for name, each in {**trainer.optimizer.state(), **averages}.items()
    }
    return {f"state.{name}": each for name, each in copies.items()}


def test_after_one_too_many_nothing_changes_until_it_is_told(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(config(ema_decay=0.9))
    spoil(trainer, monkeypatch, 3)
    before: dict[str, torch.Tensor] = {}
    seen: list[int] = []

    def train() -> None:
        for result in trainer.steps():
            seen.append(result.step)
            if result.step == 2:
                before.update(weights(trainer) | state_of(trainer))

    said = r"^step 3 \(epoch 1, batch 3\): the loss is [0-9.]+ and the gradient's norm nan; "
    with pytest.raises(TrainingError, match=said):
        train()
    assert seen == [1, 2, 3, 4, 5]
    assert_same_bits(weights(trainer) | state_of(trainer), before)


def test_nothing_is_saved_before_its_reports_are_read(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(config())
    spoil(trainer, monkeypatch, 3)
    take(trainer, 3)
    with pytest.raises(TrainingError, match=r"^step 3 "):
        trainer.state()


def test_resuming_is_exact(like_a_gpu: list[str]) -> None:
    settings = config(dropout=0.3, ema_decay=0.9, epochs=4)
    straight = trainer_of(settings)
    take(straight, 7)
    resumed = trainer_of(settings, weights=2)
    moments = {name: moment.clone() for name, moment in straight.optimizer.state().items()}
    linear_weights = weights_of(straight.eval_model)
    for name, weight in weights_of(resumed.eval_model).items():
        weight.copy_(linear_weights[name])
    resumed.restore(State(**straight.state()), moments)
    # The resumed one replays no graph at first.
    assert [numbers(each) for each in resumed.steps()] == [
        numbers(each) for each in straight.steps()
    ]
    assert_same(straight, resumed)


def test_shapes_beyond_what_fits_run_without_a_graph(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "_MAX_GRAPHS", 2)
    expected = on_cpu({})
    found = [numbers(each) for each in trainer_of(config()).steps()]
    for one, other in zip(found, expected.finished, strict=True):  # type: ignore[attr-defined]
        assert one == pytest.approx(other, rel=1e-5)
    assert len(like_a_gpu) == 2 + 1


def test_splitting_a_batch_frees_the_graphs(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(config(batch_tokens=48, epochs=6))
    steps = trainer.steps()
    for _ in range(4):
        next(steps)
    run, calls = trainer._gradients._run, iter(range(100))

    def run_out_of_memory_once(*arguments: Any) -> Any:
        if next(calls) == 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return run(*arguments)

    step_graphs = trainer._gradients._graphs
    assert step_graphs is not None
    assert {rows for rows, _, _ in step_graphs._captured} == {8, 2}
    step_graphs._captured.clear()  # so that the next batch is not replayed
    monkeypatch.setattr(step_graphs, "_run", run_out_of_memory_once)
    assert next(steps).micro_batches == 2
    assert {rows for rows, _, _ in (*step_graphs._seen, *step_graphs._captured)} == {1}


# --- parts of it --------------------------------------------------------------------------------


def test_the_device_decides() -> None:
    cuda, two = torch.device("cuda"), Ranks(size=2)
    assert (
        Execution.choose(torch.device("cpu"), torch.bfloat16, SINGLE_PROCESS, True) == Execution()
    )
    alone = Execution.choose(cuda, torch.bfloat16, SINGLE_PROCESS, True)
    assert (alone.graphs, alone.cast_once, alone.read_delay > 0) == (True, True, True)
    assert not Execution.choose(cuda, torch.float32, SINGLE_PROCESS, False).graphs
    shared = Execution.choose(cuda, torch.float32, two, True)
    assert (shared.graphs, shared.cast_once, shared.read_delay) == (False, False, 0)


def test_rounding_up_changes_shapes_alone() -> None:
    batch = collate(TEXT, np.arange(5))
    rounded = batch.round_up()
    assert batch.shape == (5, 6, 6)
    assert rounded.shape == (8, 8, 8)
    assert rounded.tgt_tokens == batch.tgt_tokens
    for side in ("src", "tgt_in", "tgt_out"):
        old, new = getattr(batch, side), getattr(rounded, side)
        assert torch.equal(new[:5, : old.size(1)], old)
        assert (new[:5, old.size(1) :] == PAD_ID).all()
    assert (rounded.src[5:, 0] == EOS_ID).all()
    assert (rounded.tgt_out[5:] == PAD_ID).all()
    assert rounded.round_up().shape == rounded.shape


@pytest.mark.parametrize("rdrop_alpha", [0.0, 1.0])
def test_padding_changes_neither_loss_nor_gradients(rdrop_alpha: float) -> None:
    def run(batch: Batch) -> dict[str, torch.Tensor]:
        trainer = trainer_of(config(rdrop_alpha=rdrop_alpha))
        losses = trainer._gradients.accumulate(1, [batch], batch.tgt_tokens)
        found = {name: each.grad for name, each in trainer.model.named_parameters()}
        assert None not in found.values()
        return {**found, "loss": losses.loss, "nll_loss": losses.nll_loss}  # type: ignore[dict-item]

    batch = collate(TEXT, np.arange(5))
    torch.testing.assert_close(run(batch.round_up()), run(batch), rtol=1e-5, atol=1e-6)


def test_batches_are_rounded_up_where_shapes_do_not_recur(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int, int]] = []
    run = StepGraphs.__call__

    def watched(self: Any, batch: Batch, share: Any) -> Any:
        seen.append(batch.shape)
        return run(self, batch, share)

    monkeypatch.setattr(StepGraphs, "__call__", watched)
    settings = config(epochs=1)
    model = trainer_of(settings).model
    list(Trainer(model, TEXT, settings, torch.float32, lambda pairs, seed: pairs).steps())
    assert {rows % MULTIPLE_OF_ROWS for rows, _, _ in seen} == {0}
    seen.clear()
    list(Trainer(model, TEXT, settings, torch.float32).steps())
    assert {rows for rows, _, _ in seen} == {2}


def test_micro_batches_are_part_of_the_state() -> None:
    settings = config(dropout=0.3, batch_tokens=48)
    straight = trainer_of(settings)
    straight._gradients.micro_batches = 2
    take(straight, 2)
    resumed = trainer_of(settings)
    for name, weight in weights_of(resumed.model).items():
        weight.copy_(weights(straight)[name])
    moments = {name: moment.clone() for name, moment in straight.optimizer.state().items()}
    resumed.restore(State(**straight.state()), moments)
    assert [numbers(each) for each in resumed.steps()] == [
        numbers(each) for each in straight.steps()
    ]


def test_weights_cast_once_give_autocasts_gradients() -> None:
    settings = config(dropout=0.3, rdrop_alpha=1.0)
    batch = collate(TEXT, np.arange(6))

    def run(execution: Execution) -> dict[str, Any]:
        model = trainer_of(settings).model.train()
        step = GradientAccumulator(
            model, settings.training, torch.bfloat16, 1, SINGLE_PROCESS, execution
        )
        # Once with other weights: what is computed with are not yesterday's.
        with torch.no_grad():
            model.decoder[0].self_attention.query.weight.mul_(2.0)  # type: ignore[union-attr, operator]
        losses = step.accumulate(1, [batch], batch.tgt_tokens)
        found = {name: each.grad for name, each in model.named_parameters()}
        return {**found, "loss": losses.loss}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_can_use_onednn", lambda *_: False)
        expected, found = run(Execution()), run(Execution(cast_once=True))
    assert {each.dtype for each in found.values()} == {torch.float32}
    assert_same_bits(found, expected)
