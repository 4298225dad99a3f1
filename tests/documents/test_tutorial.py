"""The tutorial, followed to the letter, on a small scale."""

import shlex
import subprocess
from pathlib import Path

from cli import process

from documents.commands import ROOT, blocks

# What the training is cut short by.
FEW_STEPS = ["--set", "training.max_steps=20"]


def test_the_tutorial_leads_to_a_translated_file(tmp_path: Path) -> None:
    process.start_server()
    here = tmp_path
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for block in blocks(tutorial):
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
