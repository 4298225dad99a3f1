"""Configurations that build on one another."""

from pathlib import Path

import pytest

ROOT = """\
data: {kind: toy}
tokenizer: {kind: words}
seed: 3
training:
  epochs: 10
  schedule: {kind: noam, factor: 3, warmup: 400}
"""
MIDDLE = """\
base: root.yaml
training: {epochs: 20}
"""
TOP = """\
base: middle.yaml
seed: 3.0
training:
  epochs: 30
  schedule: {kind: linear, peak: 1e-3, warmup: 100}
"""


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("root", ROOT), ("middle", MIDDLE), ("top", TOP)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return Path("top.yaml")


@pytest.fixture
def derived(config: Path) -> Path:
    path = config.with_name("derived.yaml")
    path.write_text("base: tiny.yaml\ntraining: {epochs: 2}\n")
    return path
