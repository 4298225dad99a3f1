"""Trial steps change nothing, and forecasts follow from their times."""

import copy
import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from cli.conftest import Training

from transformer_cli.base.errors import TrainingError
from transformer_cli.base.ranks import SINGLE_PROCESS, Ranks
from transformer_cli.config.schema import Config
from transformer_cli.data.batches import Batch, EpochBatches
from transformer_cli.data.kinds import load_split
from transformer_cli.data.store import EncodedText, Lengths, TokenArray
from transformer_cli.evaluation.scores import Metrics
from transformer_cli.evaluation.scoring import Validator
from transformer_cli.extensions.observers import forecast as module
from transformer_cli.extensions.observers.forecast import (
    PROBED,
    Forecast,
    Trial,
    _StepTimes,
    describe_forecast,
    forecast,
    sample_epoch,
    time_pair,
    time_validation,
)
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.inference.search import TorchEngine
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.training.trainer import Trainer

BATCH_TOKENS = 24


def text() -> EncodedText:
    """Forty pairs of one to eight tokens."""
    src = [[4 + (number + place) % 8 for place in range(1 + number % 8)] for number in range(40)]
    return EncodedText(TokenArray.from_sentences(src), TokenArray.from_sentences(src[::-1]))


def sample_subwords(pairs: EncodedText, seed: int) -> EncodedText:
    """Each source backwards, or in its own order."""
    src: list[list[int]] = [pairs.src[index].tolist() for index in range(len(pairs))]
    return EncodedText(
        TokenArray.from_sentences(each[::-1] if seed % 2 else each for each in src), pairs.tgt
    )


def trainer(epochs: int = 3, sampled: bool = False, **training: Any) -> Trainer:
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 24, "dropout": 0.2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    schedule = {"kind": "constant", "peak": 0.01}
    settings = Config.model_validate(
        {
            "data": {"kind": "toy"},
            "tokenizer": {"kind": "words"},
            "model": sizes | layers,
            "training": {
                "batch_tokens": BATCH_TOKENS,
                "epochs": epochs,
                "schedule": schedule,
                **training,
            },
        }
    )
    model = build_model(settings.model, 12, 12, PAD_ID, settings.seed)
    return Trainer(model, text(), settings, torch.float32, sample_subwords if sampled else None)


def state(trained: Trainer) -> dict[str, Any]:
    weights = {f"kept.{name}": each for name, each in trained.eval_model.state_dict().items()}
    moments = trained.optimizer.state()
    numbers = {key: torch.tensor(value) for key, value in trained.state().items()}
    return copy.deepcopy(weights | moments | numbers | dict(trained.model.state_dict()))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accumulate": 3},
        {"rdrop_alpha": 1.0},
        {"ema_decay": 0.9},
        {"sampled": True},
        {"clip_norm": None, "label_smoothing": 0.0},
        {"schedule": {"kind": "cosine", "peak": 0.01, "warmup": 2}},
    ],
    ids=str,
)
def test_a_training_is_the_same_with_and_without_a_forecast(settings: dict[str, Any]) -> None:
    plain, probed = (trainer(max_steps=6, **settings) for _ in range(2))
    draws = torch.get_rng_state()
    before = state(probed)
    assert forecast(probed, sample_epoch(probed.epochs, PROBED)) is not None
    assert_same(state(probed), before)
    assert all(weight.grad is None for weight in probed.model.parameters())
    assert torch.equal(torch.get_rng_state(), draws)
    steps = zip(plain.steps(), probed.steps(), strict=True)
    for expected, found in steps:
        assert found.loss == expected.loss
        if found.step == 3:  # in the middle, too
            assert forecast(probed, sample_epoch(probed.epochs, PROBED)) is not None
    assert_same(state(probed), state(plain))


# --- what it says ---------------------------------------------------------------------------------


@dataclass
class Costs:
    """A step takes 1.5 s, plus 0.5 s per batch and 0.01 s per token."""

    computing: float = 0.9
    """Part of the time."""
    asked: list[Batch] = field(default_factory=list)
    """The batches whose time was asked for."""

    def __call__(self, spare: Trial, *batches: Batch) -> _StepTimes:
        self.asked += batches
        large = [batch for batch in batches if batch.src.size(0) > 1]
        tokens = sum(batch.src.numel() + batch.tgt_in.numel() for batch in large)
        seconds = 1.5 + 0.5 * len(batches) + 0.01 * tokens
        return _StepTimes(seconds, self.computing * seconds)


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    made = Costs()
    monkeypatch.setattr(module, "_time_step", made)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    return made


@pytest.mark.parametrize(("accumulate", "ranks"), [(1, 1), (3, 1), (2, 2)])
def test_time_is_that_of_steps_and_of_tokens(costs: Costs, accumulate: int, ranks: int) -> None:
    trained = trainer(accumulate=accumulate, epochs=5)
    batches = list(trained.epochs.iter_epoch(0))
    tokens = sum(each.src.numel() + each.tgt_in.numel() for each in batches)
    if ranks > 1:
        trained.ranks = Ranks(size=ranks)
        trained.steps_per_epoch = -(-len(batches) // (accumulate * ranks))
        trained.total_steps = 5 * trained.steps_per_epoch
    trained.step = 2 * trained.steps_per_epoch  # and three epochs are left
    found = forecast(trained, sample_epoch(trained.epochs, PROBED))
    assert found is not None
    fixed = 1.5 + 0.5 * accumulate
    expected = fixed * 3 * trained.steps_per_epoch + 3 * 0.01 * tokens / ranks
    assert found.seconds == pytest.approx(expected)
    assert found.memory > 1e6


@pytest.mark.parametrize(
    ("validate_every", "done", "validations"), [(None, 0, 5), (None, 3, 2), (10, 0, None)]
)
def test_validations_are_counted(
    costs: Costs, validate_every: int | None, done: int, validations: int | None
) -> None:
    trained = trainer(epochs=5, validate_every=validate_every)
    trained.step = done * trained.steps_per_epoch
    without = forecast(trained, sample_epoch(trained.epochs, PROBED))
    found = forecast(trained, sample_epoch(trained.epochs, PROBED), lambda: 100.0)
    assert without is not None
    assert found is not None
    if validations is None:  # one more at the end
        validations = -(-trained.total_steps // 10)
    assert found.seconds == pytest.approx(without.seconds + 100.0 * validations)


@pytest.mark.parametrize(("computing", "alone"), [(1.0, 1.0), (0.85, 1.0), (0.4, 0.4)])
def test_load_is_distinguished_from_work(costs: Costs, computing: float, alone: float) -> None:
    costs.computing = computing
    trained = trainer()
    found = forecast(trained, sample_epoch(trained.epochs, PROBED))
    assert found is not None
    assert found.idle_seconds == pytest.approx(alone * found.seconds)


def test_a_thread_that_waits_is_not_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as if the core were busy with another program, or waiting for such a thread."""
    monkeypatch.setattr(Trial, "step", lambda spare, batches: time.sleep(0.2))
    trained = trainer()
    found = forecast(trained, sample_epoch(trained.epochs, PROBED))
    assert found is not None
    assert found.idle_seconds < 0.5 * found.seconds


@pytest.mark.parametrize(
    ("idle_seconds", "said"),
    [
        (12_240.0, "about 3.4 h with validations"),
        (660.0, "about 11 min on an idle machine, 3.4 h at the present load with validations"),
    ],
)
def test_both_are_said(idle_seconds: float, said: str) -> None:
    assert describe_forecast(Forecast(12_240.0, idle_seconds, 10**9)).startswith(said)


@pytest.mark.parametrize(("seconds", "is_told"), [(3_500.0, False), (3_700.0, True)])
def test_advice_to_shorten_a_long_training(seconds: float, is_told: bool) -> None:
    text = describe_forecast(Forecast(seconds, seconds, 10**9))
    assert text.endswith("training.max_minutes shortens it") == is_told


def test_a_first_batch_that_takes_too_long_is_the_last(
    costs: Costs, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 10**6, 100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    trained = trainer()
    found = forecast(trained, sample_epoch(trained.epochs, PROBED))
    assert found is not None
    assert [len(batch.src) > 1 for batch in costs.asked] == [False, True, False]


@pytest.mark.parametrize(
    "error", [TrainingError("the loss is nan"), MemoryError(), RuntimeError("std::bad_alloc")]
)
def test_there_is_no_forecast_if_no_step_is_possible(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(spare: Trial, batches: list[Batch]) -> None:
        raise error

    monkeypatch.setattr(Trial, "step", fail)
    trained = trainer()
    assert forecast(trained, sample_epoch(trained.epochs, PROBED)) is None


# --- the batches that are tried -------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [False, True])
def test_a_sample_is_of_the_epochs_batches_and_has_the_largest(sampled: bool) -> None:
    trained = trainer(sampled=sampled)
    sample = sample_epoch(trained.epochs, PROBED)
    epoch = list(trained.epochs.iter_epoch(0))
    ids = {batch.src.numpy().tobytes() + batch.tgt_in.numpy().tobytes() for batch in epoch}
    found = list(sample.batches)
    assert len(found) == PROBED
    assert {each.src.numpy().tobytes() + each.tgt_in.numpy().tobytes() for each in found} <= ids
    sizes = [batch.src.numel() + batch.tgt_in.numel() for batch in epoch]
    assert found[0].src.numel() + found[0].tgt_in.numel() == max(sizes)
    longest = [max(batch.src.size(1), batch.tgt_in.size(1)) for batch in found[1:]]
    assert longest == sorted(longest)
    assert longest[0] < longest[-1]
    padded = sum(each.src.numel() + each.tgt_in.numel() for each in epoch)
    assert sample.padded_tokens == padded


class Halves:
    """A text in two shards of different sizes."""

    num_shards = 2

    def __init__(self) -> None:
        self._whole = text()

    def shard_lengths(self, shard: int) -> Lengths:
        return self.draw(shard, 1, 0).lengths

    def draw(self, shard: int, seed: int, epoch: int) -> EncodedText:
        return self._whole.take(np.arange(30) if shard else np.arange(30, 40))


def test_of_several_shards_the_largest_speaks_for_all() -> None:
    sample = sample_epoch(EpochBatches(Halves(), BATCH_TOKENS, seed=1), PROBED)
    whole = EpochBatches(text(), BATCH_TOKENS, seed=1).iter_epoch(0)
    padded = sum(each.src.numel() + each.tgt_in.numel() for each in whole)
    assert sample.padded_tokens == pytest.approx(padded, rel=0.2)
    assert len(list(sample.batches)) == PROBED


def test_a_text_of_one_batch_is_sampled_as_often_as_asked() -> None:
    batches = list(sample_epoch(trainer(batch_tokens=10_000).epochs, 3).batches)
    assert [len(batch.src) for batch in batches] == [40] * 3


def test_an_evaluation_is_timed_on_translations_as_long_as_the_references(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_directory = RunDirectory(training.run)
    data = run_directory.load_config().data
    cpu = torch.device("cpu")
    translator = load_torch_translator(run_directory, "best", ComputeOptions(device="cpu"))
    trainer: Any = SimpleNamespace(
        device=cpu, eval_model=translator.engine.model, ranks=SINGLE_PROCESS
    )
    pairs = load_split(data, "val")
    validator = Validator(trainer, translator, pairs, 0, Metrics(), "bleu")
    search = TorchEngine.search
    found: list[tuple[list[int], list[int]]] = []

    def record(engine: TorchEngine, sources: Any, limits: Any, options: Any, *others: Any) -> Any:
        outputs = search(engine, sources, limits, options, *others)
        references = options.constraints[0].ids
        found.extend((best[0].ids, ids) for best, ids in zip(outputs, references, strict=True))
        return outputs

    monkeypatch.setattr(TorchEngine, "search", record)
    monkeypatch.setattr(module, "_MEASURED", {"cpu": 10})
    clock = iter([0.0, 5.0, 0.0, 5.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    assert time_pair(validator) == 0.5
    assert len(found) == 10
    assert all(written == reference for written, reference in found)
    assert time_validation(validator) == 0.5 * len(pairs)
    long = replace(pairs, src=[" ".join(["1"] * 10_000)] * len(pairs))
    assert time_validation(replace(validator, pairs=long)) == 0.0
