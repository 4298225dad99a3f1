"""The walks of docs/tutorial.md, followed to the letter, on a small scale."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from cli import process

from documents.commands import ROOT, Block, blocks

# What the training is cut short by.
FEW_STEPS = ["--set", "training.max_steps=20"]


def _blocks(title: str) -> list[Block]:
    """Return the code of a walk."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    walks = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S))
    return list(blocks(walks[title]))


@pytest.mark.long
def test_the_tutorial_leads_to_a_translated_file(tmp_path: Path) -> None:
    here = tmp_path
    for block in _blocks("Your own text"):
        if block.language == "yaml":
            shown = "\n".join(block.lines) + "\n"
            assert shown == (here / "configs" / "own_de_en.yaml").read_text(encoding="utf-8")
        elif block.language == "sh":
            here = _follow(block.lines, here)
    assert here.name == "translator"
    source, translated = here / "runs/own_de_en/corpus/test.src", here / "translated.en"
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
        assert finished.code == 0, finished.err
    return here


@pytest.mark.parametrize("is_whole", [False, True], ids=["forecast", "whole"])
@pytest.mark.long
def test_the_sweep_tutorial_leads_to_a_p_value(is_whole: bool, tmp_path: Path) -> None:
    followed, out = 0, ""
    for block in _blocks("Comparing two settings"):
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
            _shorten(tmp_path / "configs" / "toy.yaml")
        if followed == 2:
            assert out.startswith("0 of 8 runs have finished\n")
            if not is_whole:
                return
    assert followed == 4
    assert "difference" in out


def _shorten(config: Path) -> None:
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("epochs: 20", "max_steps: 20").replace("128", "32"))


# The captions and the programs' messages, on a small scale.
SMALL = {
    "kind: multi30k,": "kind: toy,",
    "split: {val: 500, test: 1000}": "split: {val: 5, test: 5}",
    "test_2016_flickr": "test",
}
SMALL_MODEL = """
tokenizer: {vocab_size: 400}
model: {d_model: 16, num_heads: 2, d_ff: 32}
"""


@pytest.mark.long
def test_the_adapting_tutorial_leads_to_a_comparison(tmp_path: Path) -> None:
    _write_messages(tmp_path)
    files = iter(("base.yaml", "photo.yaml", "replay.yaml"))
    compared = ""
    for block in _blocks("Adapting a model"):
        text = "\n".join(block.lines)
        for old, new in SMALL.items():
            text = text.replace(old, new)
        if block.language == "yaml":
            name = next(files)
            more = SMALL_MODEL if name == "base.yaml" else ""
            (tmp_path / name).write_text(f"{text}\n{more}", encoding="utf-8")
        if block.language != "sh" or "benchmarks" in text:
            continue
        for line in text.splitlines():
            arguments = shlex.split(line)[1:]
            few = ["--set", "training.max_steps=2"] if arguments[0] == "train" else []
            finished = process.run(*arguments, *few, cwd=tmp_path)
            assert finished.code == 0, finished.err
            compared = finished.out
    assert not list(files)
    assert "runs/photo:test: 5 sentences" in compared
    assert "runs/base:test: 200 sentences" in compared


def _write_messages(directory: Path) -> None:
    """Write what the tutorial fetches: PO files, and the captions as plain text."""
    for name in ("strings/po", "text"):
        (directory / name).mkdir(parents=True)
    sides = [
        (ROOT / "data" / "toy" / f"val.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("en", "de")
    ]
    entries = [f'msgid "{en}"\nmsgstr "{de}"\n' for en, de in list(zip(*sides, strict=True))[:60]]
    for number, name in enumerate(("digikam-data.digikam", "darktable.darktable")):
        text = "\n".join(entries[number::2])
        (directory / "strings" / "po" / f"{name}.po").write_text(text, encoding="utf-8")
    for side, lines in zip(("en", "de"), sides, strict=True):
        text = "".join(f"{line}\n" for line in lines[60:])
        (directory / "text" / f"train.{side}").write_text(text, encoding="utf-8")
