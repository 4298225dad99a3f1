"""What a GPU may not change: that it learns, what it writes, and where its checkpoints are read."""

from pathlib import Path

import pytest
import torch

from transformer_cli.config.yaml import load_config
from transformer_cli.data.sources import load_split
from transformer_cli.inference.loading import load_torch_translator
from transformer_cli.model.transformer import build_model
from transformer_cli.model.weights import weights_of
from transformer_cli.runs.checkpoint import Checkpoint
from transformer_cli.runs.checkpoint_directory import find_checkpoint
from transformer_cli.runs.checkpoint_writer import save_checkpoint
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.preparation import prepare_data, select_training_pairs
from transformer_cli.training.texts import read_texts
from transformer_cli.training.trainer import Trainer

pytestmark = pytest.mark.gpu

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
CONFIG = load_config(
    Path(__file__).parents[1] / "configs" / "copy.yaml",
    (
        "data.length=6",
        "data.test_lines=50",
        "model.dropout=0.1",
        "training.max_steps=200",
        "training.schedule.warmup=50",
        "decoding.batch_tokens=100",
    ),
)


@pytest.fixture(scope="module")
def run_and_losses(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunDirectory, list[float]]:
    """A run trained on the GPU in bfloat16, saved, and its loss a target token, step by step."""
    run = RunDirectory(tmp_path_factory.mktemp("gpu") / "run")
    initialize_run(run, CONFIG)
    prepared = prepare_data(CONFIG, read_texts(CONFIG.data), run, lambda lines, _: lines)
    src_size, tgt_size = prepared.tokenizers.src.size, prepared.tokenizers.tgt.size
    model = build_model(CONFIG.model, src_size, tgt_size, PAD_ID, CONFIG.seed).to(CUDA)
    trainer = Trainer(model, select_training_pairs(CONFIG, prepared.train), CONFIG, torch.bfloat16)
    losses = [step.losses.nll_loss.item() / step.tgt_tokens for step in trainer.steps()]
    save_checkpoint(
        run.checkpoints,
        weights_of(model),
        trainer.optimizer_state(),
        {**trainer.state(), "best_step": None},
        fingerprint(run.tokenizer),
    )
    return run, losses


def test_bfloat16_training_learns(run_and_losses: tuple[RunDirectory, list[float]]) -> None:
    _, losses = run_and_losses
    assert len(losses) == CONFIG.training.max_steps
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_those_of_the_cpu(
    run_and_losses: tuple[RunDirectory, list[float]], beam_size: int
) -> None:
    # Read on the CPU too: a checkpoint does not care where it was made.
    run, _ = run_and_losses
    lines = load_split(CONFIG.data, "test").src
    on_cpu, on_gpu = (
        load_torch_translator(run, "last", device, torch.float32)
        .with_search(beam_size=beam_size)
        .translate(lines)
        for device in (CPU, CUDA)
    )
    assert on_gpu == on_cpu
    assert len(set(on_cpu)) > 1


def test_training_goes_on_from_a_gpus_checkpoint_on_the_cpu(
    run_and_losses: tuple[RunDirectory, list[float]],
) -> None:
    run, losses = run_and_losses
    prepared = prepare_data(CONFIG, read_texts(CONFIG.data), run, lambda lines, _: lines)
    config = CONFIG.model_copy(
        update={"training": CONFIG.training.model_copy(update={"max_steps": 201})}
    )
    model = load_torch_translator(run, "last", CPU, torch.float32).engine.model
    trainer = Trainer(model, select_training_pairs(config, prepared.train), config, torch.float32)
    checkpoint = Checkpoint.open(
        find_checkpoint(run.checkpoints, "last"), fingerprint(run.tokenizer)
    )
    trainer.restore(checkpoint.load_state(), checkpoint.load_optimizer())
    (step,) = trainer.steps()
    assert step.step == 201
    assert step.losses.nll_loss.item() / step.tgt_tokens < 0.5 * losses[0]
