"""What would fail on Windows, in a process that is as near to it as Linux can make one."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import children
import pytest
import stand_in_windows
from cli.conftest import TINY

from transformer_cli.files import find_unusable_on_windows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a stand-in for Windows")

COMMANDS = [
    ["vocab", "tiny.yaml"],
    ["train", "tiny.yaml"],
    ["train", "tiny.yaml", "--set", "training.epochs=20"],  # resumes
    ["train", "tiny.yaml", "--overwrite"],
    ["average", "runs/tiny", "--last", "2"],
    ["evaluate", "runs/tiny", "-o", "scored.txt"],
    ["translate", "runs/tiny", "-i", "input.txt", "-o", "output.txt"],
    ["report", "runs/tiny"],
    ["export", "runs/tiny", "exported", "--format", "hub"],
    ["translate", "exported", "-i", "input.txt"],
]


@dataclass(frozen=True)
class Ended:
    directory: Path
    codes: list[int]
    out: str
    err: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    directory = tmp_path_factory.mktemp("windows")
    (directory / "tiny.yaml").write_text(TINY)
    (directory / "input.txt").write_bytes("a b c\nÄ ± 語\n".encode())
    (directory / "exported").mkdir()
    command = [sys.executable, stand_in_windows.__file__, json.dumps(COMMANDS), "codes.json"]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "OMP_NUM_THREADS": "1"}
    process = children.start(
        command,
        environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(timeout=300)
    print(err.decode())
    codes = json.loads((directory / "codes.json").read_text())
    return Ended(directory, codes, out.decode(), err.decode())


def test_every_command_ends_well(ended: Ended) -> None:
    assert ended.codes == [0] * len(COMMANDS), ended.err
    assert "error" not in ended.err
    assert "Traceback" not in ended.err


def test_streams_are_utf_8(ended: Ended) -> None:
    assert "±" in ended.out
    assert len((ended.directory / "output.txt").read_bytes().decode().splitlines()) == 2


def test_files_are_those_of_other_systems(ended: Ended) -> None:
    run = ended.directory / "runs" / "tiny"
    texts = [*run.rglob("*.json"), *run.rglob("*.yaml"), *run.rglob("*.jsonl"), *run.rglob("*.txt")]
    assert len(texts) > 8
    for path in (*texts, ended.directory / "output.txt", ended.directory / "scored.txt"):
        assert b"\r" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("runs/con", "con"),
        ("runs/Aux.v2/toy", "Aux.v2"),
        ("com1", "com1"),
        ("LPT9.txt", "LPT9.txt"),
        ("nul .txt", "nul .txt"),
        ("runs/toy.", "toy."),
        ("toy ", "toy "),
        ("runs/de:en", "de:en"),
        ("a?b", "a?b"),
    ],
)
def test_names_that_windows_has_not(path: str, part: str) -> None:
    assert find_unusable_on_windows(PurePosixPath(path)) == part
    assert find_unusable_on_windows(PureWindowsPath("C:/") / path) == part


@pytest.mark.parametrize(
    "path", ["C:\\runs\\toy", "..\\runs\\console", "\\\\host\\share\\auxiliary", "a.b", ".", "com"]
)
def test_names_that_windows_has(path: str) -> None:
    assert find_unusable_on_windows(PureWindowsPath(path)) is None
