"""What would fail on Windows, in a process that is as near to it as Linux can make one."""

import ast
import errno
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath

import children
import pytest
import stand_in_windows
from cli import process
from cli.conftest import TINY, config

from transformer_cli.base.errors import TokenizerError
from transformer_cli.cli import process as processes
from transformer_cli.config.data_schema import FilePair
from transformer_cli.text import model_check, model_check_script

__all__ = ["config"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is made of Linux")

COMMANDS = [
    ["vocab", "tiny.yaml"],
    ["train", "tiny.yaml"],
    ["train", "tiny.yaml", "--set", "training.epochs=20"],
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


@pytest.mark.long
def test_every_command_ends_well(ended: Ended) -> None:
    assert ended.codes == [0] * len(COMMANDS), ended.err
    assert "error" not in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.long
def test_streams_are_utf_8(ended: Ended) -> None:
    assert "±" in ended.out
    assert len((ended.directory / "output.txt").read_bytes().decode().splitlines()) == 2


@pytest.mark.long
def test_files_are_those_of_other_systems(ended: Ended) -> None:
    run = ended.directory / "runs" / "tiny"
    texts = [*run.rglob("*.json"), *run.rglob("*.yaml"), *run.rglob("*.jsonl"), *run.rglob("*.txt")]
    assert len(texts) > 8
    for path in (*texts, ended.directory / "output.txt", ended.directory / "scored.txt"):
        assert b"\r" not in path.read_bytes(), path


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")


def test_paths_are_recorded_alike() -> None:
    src, tgt = PureWindowsPath("C:\\text\\a.de"), PureWindowsPath("C:\\text\\a.en")
    pair = FilePair.model_construct(None, src=src, tgt=tgt)  # type: ignore[arg-type]
    recorded = pair.model_dump(mode="json", warnings=False)
    assert recorded == {"src": "C:/text/a.de", "tgt": "C:/text/a.en"}


def have_break(then: Callable[[], None]) -> None:
    signal.SIGBREAK = stand_in_windows.SIGBREAK  # type: ignore[attr-defined]
    then()


def test_ctrl_break_is_a_request_to_stop(config: Path, tmp_path: Path) -> None:
    stop = partial(
        process.signal_at,
        "transformer_cli.training.trainer:Trainer",
        "_update",
        11,  # so that step 12 is the last
        stand_in_windows.SIGBREAK,
    )
    stopped = process.run("train", config, cwd=tmp_path, before=partial(have_break, stop))
    assert stopped.code == 143, stopped.err
    assert "stopped at step 12; the same command resumes from there\n" in stopped.err
    assert (tmp_path / "runs/tiny/checkpoints/step-00000012").is_dir()


def test_what_a_reader_no_longer_wants_is_no_error(windows: None) -> None:
    assert processes.is_closed_pipe(OSError(errno.EINVAL, "Invalid argument"))
    assert not processes.is_closed_pipe(OSError(errno.ENOSPC, "No space left on device"))


def test_a_model_is_tried_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(sys, "argv", ["script"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"no model")))
    with pytest.raises(RuntimeError, match="sentencepiece"):
        model_check_script.main()


def test_a_crash_is_known_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.CompletedProcess([], 0xC0000005, stderr=b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(TokenizerError, match=r"library crashes on .* \(code 0xc0000005\)"):
        model_check.check_model(b"crashes", Path("src.model"), "get it again")


@pytest.mark.long
def test_windows_can_collect_the_tests() -> None:
    # What is evaluated as a module is imported: all but the bodies of functions.
    ignored = {"faults/test_disk.py", "faults/test_kill_anywhere.py"}
    ignored |= {"faults/test_hostile_models.py", "faults/test_resume_translation.py"}
    ignored |= {"stand_in_windows.py"}
    tests = Path(__file__).parent
    found = []
    for path in tests.rglob("*.py"):
        place = path.relative_to(tests).as_posix()
        if place in ignored:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.Lambda):
                function.body = []
        found += [f"{place}: {name}" for name in map(_posix_name, ast.walk(tree)) if name]
    assert found == []


def _posix_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        return next((a.name for a in node.names if a.name in stand_in_windows.HIDDEN_MODULES), None)
    if isinstance(node, ast.ImportFrom):
        return node.module if node.module in stand_in_windows.HIDDEN_MODULES else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module, hidden = (
            node.value.id,
            {
                "os": stand_in_windows.HIDDEN_IN_OS,
                "signal": stand_in_windows.HIDDEN_IN_SIGNAL,
            },
        )
        return f"{module}.{node.attr}" if node.attr in hidden.get(module, ()) else None
    return None
