"""What a GPU may not change: that training learns, its steps, its checkpoints, translations.

Every test runs on the CPU too, where it holds by itself or shows that the test can pass. Neither
spaCy nor beartype is needed, which a machine lent for its GPU may lack.
"""

from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from texts import read_texts
from torch import Tensor

from transformer_cli.base.errors import TrainingError, is_out_of_memory
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import load_split
from transformer_cli.data.store import EncodedText, TokenArray
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.model.device import choose_device
from transformer_cli.model.transformer import build_model, load_weights, weights_of
from transformer_cli.runs.checkpoint import Checkpoint, save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.protocol import PAD_ID, SPECIALS
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.training.preparation import prepare_data
from transformer_cli.training.trainer import Trainer

CPU = torch.device("cpu")
VOCAB = 14
NAME = "decoder.0.self_attention.output.weight"
TOY = (
    "tokenizer={kind: sentencepiece, vocab_size: 600}",
    "model={d_model: 64, num_heads: 4, d_ff: 128, num_encoder_layers: 1, num_decoder_layers: 1}",
    "training.batch_tokens=1024",
    "training.max_steps=80",
)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    return choose_device(request.param)


def copies(*lengths: int) -> EncodedText:
    """Random sentences of these lengths, each its own translation."""
    random = np.random.default_rng(1)
    sentences = [random.integers(len(SPECIALS), VOCAB, length).tolist() for length in lengths]
    return EncodedText(TokenArray.from_sentences(sentences), TokenArray.from_sentences(sentences))


MIXED = copies(*np.random.default_rng(2).integers(3, 9, 300).tolist())


def config(dropout: float = 0.0, peak: float = 3e-3, **training: Any) -> Config:
    sizes = {"d_model": 32, "num_heads": 2, "d_ff": 64, "dropout": dropout}
    schedule = {"kind": "linear", "peak": peak, "warmup": 20}
    settings = {"batch_tokens": 512, "epochs": 1000, "max_steps": 20, "schedule": schedule}
    return Config.model_validate(
        {
            "data": {"kind": "toy"},
            "tokenizer": {"kind": "words"},
            "model": sizes | {"num_encoder_layers": 1, "num_decoder_layers": 1},
            "training": settings | training,
        }
    )


def trainer_of(
    settings: Config,
    device: torch.device,
    text: EncodedText = MIXED,
    precision: torch.dtype = torch.float32,
) -> Trainer:
    model = build_model(settings.model, VOCAB, VOCAB, PAD_ID, settings.seed).to(device)
    return Trainer(model, text, settings, precision)


def losses(trainer: Trainer, steps: int | None = None) -> list[float]:
    """Train, and return each step's loss per target token."""
    return [step.loss / step.tgt_tokens for step in islice(trainer.steps(), steps)]


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: each.detach().cpu().clone() for name, each in weights_of(trainer.model).items()}


# --- training -------------------------------------------------------------------------------------


@pytest.mark.long
def test_bfloat16_training_learns(device: torch.device) -> None:
    settings = config(dropout=0.1, peak=1e-2, max_steps=150)
    found = losses(trainer_of(settings, device, copies(*[6] * 1000), torch.bfloat16))
    assert len(found) == 150
    assert sum(found[-5:]) < 0.5 * sum(found[:5])


@pytest.mark.long
def test_steps_are_those_of_the_cpu(device: torch.device) -> None:
    settings = config(max_steps=30)
    expected = losses(trainer_of(settings, CPU))
    assert losses(trainer_of(settings, device)) == pytest.approx(expected, rel=1e-3)


def test_dropout_draws_anew_each_step(device: torch.device) -> None:
    # One batch, and weights that hardly change: only the draws differ.
    settings = config(dropout=0.5, peak=1e-12, max_steps=8)
    found = losses(trainer_of(settings, device, copies(*[6] * 50)))
    assert len(set(found)) == len(found)
    assert losses(trainer_of(settings, device, copies(*[6] * 50))) == pytest.approx(found, rel=1e-5)


@pytest.mark.long
def test_a_loss_that_is_not_finite_leaves_the_weights_as_they_were(device: torch.device) -> None:
    trainer = trainer_of(config(max_steps=100, skip_nonfinite=1), device)
    bias = trainer.model.output.bias
    steps = trainer.steps()
    for _ in islice(steps, 10):
        pass
    before = weights(trainer)
    with torch.no_grad():
        bias[5] = torch.nan
    next(steps)
    with torch.no_grad():
        bias[5] = before["output.bias"][5].item()
    assert all(torch.equal(each, before[name]) for name, each in weights(trainer).items())
    next(steps)
    assert trainer.state()["skipped"] == 1
    after = weights(trainer)
    assert not torch.equal(after[NAME], before[NAME])

    with torch.no_grad():
        bias[5] = torch.nan
    with pytest.raises(TrainingError, match=r"^step 13 .*the loss is nan.*skip_nonfinite=11$"):
        list(steps)
    assert torch.equal(weights(trainer)[NAME], after[NAME])


@pytest.mark.long
@pytest.mark.parametrize("from_device", [True, False])
def test_training_goes_on_from_a_checkpoint_of_another_device(
    device: torch.device, from_device: bool, tmp_path: Path
) -> None:
    settings = config(max_steps=30, ema_decay=0.9)
    begins_on, goes_on_on = (device, CPU) if from_device else (CPU, device)
    first, second = trainer_of(settings, begins_on), trainer_of(settings, goes_on_on)
    losses(first, 15)
    path = save_checkpoint(
        tmp_path, weights_of(first.eval_model), first.optimizer.state(), first.state(), "none"
    )
    checkpoint = Checkpoint.open(path, "none")
    load_weights(second.eval_model, checkpoint.load_weights())
    second.restore(checkpoint.load_state(), checkpoint.load_optimizer())
    assert losses(second) == pytest.approx(losses(first), rel=1e-3)
    assert second.step == 30


def test_out_of_memory_is_recognised(device: torch.device) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as error:
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    assert is_out_of_memory(error.value)


# --- text -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(device: torch.device, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run on text, trained on the device in bfloat16."""
    settings = load_config(Path(__file__).parents[1] / "configs" / "toy.yaml", TOY)
    run = RunDirectory(tmp_path_factory.mktemp("gpu") / "run")
    initialize_run(run, settings)
    prepared = prepare_data(settings, read_texts(settings.data), run)
    model = build_model(settings.model, *prepared.vocab_sizes, PAD_ID, settings.seed).to(device)
    trainer = Trainer(model, prepared.pairs, settings, torch.bfloat16)
    found = losses(trainer)
    assert sum(found[-5:]) < 0.8 * sum(found[:5])
    save_checkpoint(
        run.checkpoints,
        weights_of(model),
        trainer.optimizer.state(),
        {**trainer.state(), "best_step": None},
        fingerprint(run.tokenizer),
    )
    return run


@pytest.mark.long
@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_those_of_the_cpu(
    run: RunDirectory, device: torch.device, beam_size: int
) -> None:
    # Read on the CPU too: a checkpoint does not depend on where it was made.
    lines = load_split(run.load_config().data, "test").src[:40]
    on_cpu, on_device = (
        load_torch_translator(
            run, "last", ComputeOptions(device=cast(Any, place.type), precision="float32")
        ).with_search(beam_size=beam_size, batch_tokens=400)
        for place in (CPU, device)
    )
    expected = on_cpu.translate(lines)
    assert on_device.translate(lines) == expected
    assert len(set(expected)) > 5
