"""Two trainings of one run: the second is told at once whose run it is."""

import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run, run_anew, signal_at, start
from filelock import lock_descriptor, unlock_descriptor

from transformer_cli.base.errors import RunError
from transformer_cli.runs import directory
from transformer_cli.runs.directory import RunDirectory, check_unlocked, lock_run


def test_asking_for_the_lock_imports_no_torch() -> None:
    program = (
        "import sys, transformer_cli.config.yaml, transformer_cli.runs.directory; "
        "print(sorted({'torch', 'numpy', 'spacy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def hide_torch_and_text() -> None:
    sys.modules["transformer_cli.model.device"] = None  # type: ignore[assignment]
    sys.modules["transformer_cli.training.preparation"] = None  # type: ignore[assignment]


@pytest.mark.parametrize("command", ["train", "vocab"])
def test_the_second_is_refused_before_it_looks_at_anything(
    training: Training, tmp_path: Path, command: str
) -> None:
    # Neither torch is imported nor text read: both would take their time.
    directory = RunDirectory(tmp_path / "run")
    with lock_run(directory):
        before = sorted(directory.path.iterdir())
        second = run(
            command, training.config, "--run-dir", directory.path, before=hide_torch_and_text
        )
        assert sorted(directory.path.iterdir()) == before
    mine = f"process {os.getpid()} on {socket.gethostname()}"
    assert_refused(second, 1, f"{directory.path}: in use by {mine}; ")


@pytest.mark.posix
@pytest.mark.long
def test_two_programs(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", "run")
    endless = ("--set", "training.epochs=1000000")
    first = start(*command, *endless, cwd=tmp_path, stderr=subprocess.PIPE)
    assert first.stderr is not None
    assert next(line for line in first.stderr if line.startswith(b"step "))
    began = time.monotonic()
    second = run_anew(*command, *endless, cwd=tmp_path)
    print(f"refused after {time.monotonic() - began:.2f} s")
    holder = f"process {first.pid} on {socket.gethostname()}"
    assert_refused(second, 1, f"run: in use by {holder}; ", "use another directory")
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    first.communicate()
    assert first.returncode == 143


@pytest.mark.posix
def test_a_killed_trainings_lock_is_no_obstacle(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    kill = partial(signal_at, "transformer_cli.training.trainer:Trainer", "_update", 12)
    assert run(*command, before=kill).code == -signal.SIGKILL
    assert (tmp_path / "run" / ".lock").read_text().startswith("\nprocess ")
    finished = run(*command)
    assert finished.code == 0, finished.err
    assert "resuming from step 10\n" in finished.err


def test_asking_writes_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    check_unlocked(run)
    assert list(tmp_path.iterdir()) == []
    with lock_run(run):
        pass
    before = run.lock.read_text()
    check_unlocked(run)
    assert run.lock.read_text() == before


def test_somebody_who_only_asks_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory(tmp_path)
    with lock_run(run):
        pass
    with run.lock.open("r+") as asking:
        assert lock_descriptor(asking.fileno(), blocking=False)
        monkeypatch.setattr("time.sleep", lambda _: unlock_descriptor(asking.fileno()))
        with lock_run(run), pytest.raises(RunError, match=f"in use by process {os.getpid()} on "):
            check_unlocked(run)


def test_the_holder_is_named_behind_the_locked_byte(tmp_path: Path) -> None:
    # Windows refuses to read that.
    run = RunDirectory(tmp_path)
    with lock_run(run), pytest.raises(RunError, match=f"process {os.getpid()} on "):
        check_unlocked(run)
    assert run.lock.read_bytes()[:1] == b"\n"


def test_what_is_no_run_is_refused_early(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="holds files but no run"):
        check_unlocked(RunDirectory(tmp_path))


@pytest.mark.posix
def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_directory = RunDirectory(tmp_path / "run")
    removed: list[Path] = []

    def remove_and_lock(path: Path, *others: Any) -> None:
        if not removed:  # as a training does that fails at its beginning, after we opened the file
            (path / ".lock").unlink()
            path.rmdir()
            removed.append(path)
        take(path, *others)

    take = directory._lock
    monkeypatch.setattr(directory, "_lock", remove_and_lock)
    with (
        lock_run(run_directory),
        pytest.raises(RunError, match="in use"),
        lock_run(run_directory),
    ):
        raise AssertionError("two hold the lock")
    assert removed
