"""The smallest proof that all of it works: a model that learns to copy lines exactly."""

from collections.abc import Callable

import pytest
import torch
from copied_text import write_copied
from texts import read_texts

from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import load_config
from transformer_cli.data.kinds import load_split
from transformer_cli.data.store import encode_pairs
from transformer_cli.evaluation.scoring import TorchTranslator, mean_loss
from transformer_cli.inference.loading import ComputeOptions, load_torch_translator
from transformer_cli.model.transformer import build_model
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.text.protocol import PAD_ID
from transformer_cli.text.tokenizer import fingerprint
from transformer_cli.training.preparation import prepare_data
from transformer_cli.training.session import Session, Validation
from transformer_cli.training.trainer import Trainer

pytestmark = pytest.mark.long  # what `make demo` shows on the toy corpus

CPU = torch.device("cpu")
CONFIG = """\
tokenizer: {kind: words, min_freq: 1}
model:
  {d_model: 32, num_heads: 4, d_ff: 64, num_encoder_layers: 2, num_decoder_layers: 2, dropout: 0.0}
training:
  epochs: 10
  batch_tokens: 700
  label_smoothing: 0.0
  schedule: {kind: linear, peak: 5e-3, warmup: 50}
"""


def train(config: Config, run: RunDirectory) -> None:
    """Train to the end, saving the last step."""

    def validate(give_up: Callable[[], bool]) -> Validation:
        return Validation(0.0, {"bleu": 0.0})

    initialize_run(run, config)
    prepared = prepare_data(config, read_texts(config.data), run)
    src_size, tgt_size = prepared.tokenizers.src.size, prepared.tokenizers.tgt.size
    model = build_model(config.model, src_size, tgt_size, PAD_ID, config.seed)
    trainer = Trainer(model, prepared.pairs, config, torch.float32)
    session = Session(config, run, trainer, fingerprint(run.tokenizer), validate)
    session.train(lambda: False, lambda step: None, lambda record: None)
    assert session.is_finished


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> TorchTranslator:
    """What is learned of lines of 6 out of 10 symbols, as read from disk."""
    directory = tmp_path_factory.mktemp("copy")
    data = write_copied(directory / "text", 10, 6, train_lines=3000, test_lines=50)
    (directory / "copy.yaml").write_text(f"data: {data}\n{CONFIG}")
    run = RunDirectory(directory / "run")
    train(load_config(directory / "copy.yaml"), run)
    return load_torch_translator(run, "last", ComputeOptions(device="cpu"))


@pytest.mark.parametrize("beam_size", [1, 4])
def test_unseen_lines_are_copied_exactly(translator: TorchTranslator, beam_size: int) -> None:
    unseen = load_split(translator.config.data, "test")
    assert not set(unseen.src) & set(load_split(translator.config.data, "train").src)
    assert translator.with_search(beam_size=beam_size).translate(unseen.src) == unseen.tgt


def test_unseen_lines_are_expected(translator: TorchTranslator) -> None:
    unseen = load_split(translator.config.data, "test")
    encoded = encode_pairs(unseen.pairs(), translator.tokenizers)
    assert mean_loss(translator.engine.model, encoded, 1024, torch.float32) < 0.05
