"""docs/extending.md shows a package with an extension: its files are built, installed and run."""

import re
import sys
from pathlib import Path

import pytest
from copied_text import DATA
from documents.commands import ROOT
from installed import has_command
from test_wheel import PIP, call

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w/]+\.\w+)` .*?^```\w+\n(.*?)^```$", PAGE, flags=re.M | re.S))
CONFIG = (
    f"data: {DATA}\n"
    + """\
tokenizer: {kind: words, min_freq: 1}
model: {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  {max_steps: 5, validate_every: 5, schedule: {kind: halving, peak: 0.01, warmup: 2, every: 2}}
"""
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory that has the example installed."""
    for name, text in FILES.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text(text, encoding="utf-8")
    options = ("--no-deps", "--no-build-isolation")
    call(*PIP, "wheel", *options, "-w", tmp_path, tmp_path / "source", cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    call(*PIP, "install", "--no-deps", "--target", tmp_path / "site", wheel, cwd=tmp_path)
    return tmp_path / "site"


def test_the_example_adds_a_schedule_and_a_command(site: Path, tmp_path: Path) -> None:
    assert len(FILES) == 5
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    program = (sys.executable, "-m", "transformer_cli")

    def run(*arguments: str) -> str:
        return call(*program, *arguments, cwd=tmp_path, site=site)

    rates = run("rates", "tiny.yaml")
    assert rates.splitlines() == ["1\t0.005", "2\t0.01", "3\t0.01", "4\t0.005", "5\t0.005"]
    assert "Print the learning rate of the first steps." in run("rates", "--help")
    if has_command("show"):
        assert "every: 2" in run("config", "show", "tiny.yaml")
    run("train", "tiny.yaml")
    assert run("evaluate", "runs/tiny").startswith("test: 20 sentences, greedy, step 5\n")
