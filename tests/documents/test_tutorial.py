"""The tutorials, followed to the letter, on a small scale."""

import shlex
import subprocess
from pathlib import Path

import pytest
from cli import process

from documents.commands import ROOT, Block, blocks

# What the training is cut short by.
FEW_STEPS = ["--set", "training.max_steps=20"]
FEW_LINES = "kind: copy\n  train_lines: 200\n  test_lines: 20"


def _blocks(name: str) -> list[Block]:
    return list(blocks((ROOT / "docs" / name).read_text(encoding="utf-8")))


def test_the_tutorial_leads_to_a_translated_file(tmp_path: Path) -> None:
    process.start_server()
    here = tmp_path
    for block in _blocks("tutorial.md"):
        if block.language == "yaml":
            shown = "\n".join(block.lines) + "\n"
            assert shown == (here / "configs" / "own.yaml").read_text(encoding="utf-8")
        elif block.language == "sh":
            here = _follow(block.lines, here)
    assert here.name == "translator"
    source, translated = here / "data" / "own" / "test.de", here / "translated.en"
    assert translated.read_bytes().count(b"\n") == source.read_bytes().count(b"\n") == 200


def _follow(lines: tuple[str, ...], here: Path) -> Path:
    """Do as a block says; return the directory that it ends in."""
    if lines[0].startswith("pip install"):
        return here
    for line in lines:
        if not line.startswith("transformer-cli "):
            script = f"set -e\n{line}\npwd"
            done = subprocess.run(
                ["bash", "-c", script], cwd=here, stdout=subprocess.PIPE, check=True
            )
            here = Path(done.stdout.decode().splitlines()[-1])
            continue
        arguments = shlex.split(line)[1:]
        few = FEW_STEPS if arguments[0] == "train" else []
        finished = process.run(*arguments, *few, cwd=here)
        assert finished.code in ((0, 1) if arguments[0] == "check" else (0,)), finished.err
    return here


@pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=pytest.mark.long)], ids=["forecast", "whole"]
)
def test_the_sweep_tutorial_leads_to_a_p_value(is_whole: bool, tmp_path: Path) -> None:
    process.start_server()
    followed, out = 0, ""
    for block in _blocks("sweep-tutorial.md"):
        if block.language == "yaml":
            (tmp_path / "rate.yaml").write_text("\n".join(block.lines) + "\n")
        if block.language != "sh" or not block.lines[0].startswith("transformer-cli "):
            continue
        (line,) = block.lines
        finished = process.run(*shlex.split(line)[1:], cwd=tmp_path)
        assert finished.code == 0, finished.err
        out = finished.out
        followed += 1
        if followed == 1:
            _shorten(tmp_path / "configs" / "copy.yaml")
        if followed == 2:
            assert "10 runs, 1 at a time: about " in out
            if not is_whole:
                return
    assert followed == 4
    assert "difference" in out
    assert (tmp_path / "sweeps" / "rate" / "report.html").is_file()


def _shorten(config: Path) -> None:
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("epochs: 12", "epochs: 1").replace("kind: copy", FEW_LINES))
