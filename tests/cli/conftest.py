"""A tiny experiment, and one training of it that all tests of the command line share."""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from copied_text import DATA
from filelock import FileLock

from cli import process

# 200 lines of 5 tokens, 40 lines a batch: 5 steps an epoch, 60 in all.
TINY = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: words, min_freq: 1}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  epochs: 12
  batch_tokens: 200
  validate_every: 20
  save_every: 10
  schedule: {kind: constant, peak: 1e-2, warmup: 10}
"""
)


@dataclass(frozen=True)
class Training:
    """A training that was not interrupted."""

    run: Path
    config: Path
    finished: process.Finished


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Train once; all workers of pytest-xdist share the training, so tests must not change it."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "training"
    config, ended = directory / "tiny.yaml", directory / "finished.json"
    with FileLock(f"{directory}.lock"):
        if not ended.exists():
            directory.mkdir(exist_ok=True)  # another worker may have failed, and says why
            config.write_text(TINY)
            finished = process.run_anew("train", config, cwd=directory)
            assert finished.code == 0, finished.err
            ended.write_text(json.dumps(asdict(finished)))
    finished = process.Finished(**json.loads(ended.read_text()))
    return Training(directory / "runs" / "tiny", config, finished)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def own_run(training: Training, tmp_path: Path) -> Path:
    """Return a copy of the trained run, which a test may change."""
    return shutil.copytree(training.run, tmp_path / "run")
