"""The tutorial, followed to the letter, on a small scale."""

import shlex
import shutil
import subprocess
from pathlib import Path

from cli import process

from documents.commands import ROOT, blocks

# What the training is cut short by.
FEW_STEPS = ["--set", "training.max_steps=20"]


def test_the_tutorial_leads_to_a_translated_file(tmp_path: Path) -> None:
    process.start_server()
    here = tmp_path / "checkout"
    (here / "data").mkdir(parents=True)
    shutil.copytree(ROOT / "data" / "toy", here / "data" / "toy")
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for block in blocks(tutorial):
        if block.language == "yaml":
            (here / "my.yaml").write_text("\n".join(block.lines) + "\n")
        elif block.language == "sh":
            here = _follow(block.lines, here)
    assert here.name == "translator"
    source, translated = (here / name for name in ("test.de", "translated.en"))
    assert translated.read_bytes().count(b"\n") == source.read_bytes().count(b"\n") == 200


def _follow(lines: tuple[str, ...], here: Path) -> Path:
    """Do as a block says; return the directory that it ends in."""
    if lines[0].startswith("make setup"):
        return here
    if not lines[0].startswith("transformer-cli "):
        script = "\n".join(["set -e", *lines, "pwd"])
        done = subprocess.run(["bash", "-c", script], cwd=here, stdout=subprocess.PIPE, check=True)
        return Path(done.stdout.decode().splitlines()[-1])
    for line in lines:
        arguments = shlex.split(line)[1:]
        few = FEW_STEPS if arguments[0] == "train" else []
        finished = process.run(*arguments, *few, cwd=here)
        assert finished.code in ((0, 1) if arguments[0] == "check" else (0,)), finished.err
    return here
