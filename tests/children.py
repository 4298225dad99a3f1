"""The processes that tests start: none outlives its test, and none goes unnoticed if it does.

Whatever a test's process starts has the same variable in its environment, in sessions of their own
as well, which torchrun gives its ranks: it is known by that, where there is /proc.
"""

import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

PATIENCE = 10.0
"""Seconds that processes have to end after the last test."""
_MARK = "TRANSFORMER_CLI_TESTS"

# A worker of pytest-xdist has its controller's, and a suite that a test runs one that begins alike.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ[_MARK] = f"{os.environ.get(_MARK, '')}-{uuid.uuid4().hex}"
_session = os.environ[_MARK]
_started: dict[str, subprocess.Popen[Any]] = {}
"""By mark, what the test at work has started."""


def start(
    command: Sequence[str | Path], env: Mapping[str, str] = os.environ, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process as ``subprocess.Popen`` does, in a session of its own.

    It is killed after the test, and so is whatever it has started.
    """
    mark = f"{_session}-{uuid.uuid4().hex}"
    options["start_new_session"] = True
    process: subprocess.Popen[bytes] = subprocess.Popen(
        command, env={**env, _MARK: mark}, **options
    )
    _started[mark] = process
    return process


def end_all() -> None:
    """Kill what was started and has not ended."""
    while _started:
        mark, process = _started.popitem()
        kill_group(process.pid)
        while left := _marked(mark):
            _kill(left)
        process.wait()


def kill_group(leader: int) -> None:
    """Kill the processes of a group that have not ended."""
    if sys.platform == "win32":  # it has no groups
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(leader)
            for each in (*process.children(recursive=True), process):
                each.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # macOS' answer where all are zombies
        os.killpg(leader, signal.SIGKILL)


def _kill(processes: Mapping[int, str]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    time.sleep(0.01)  # they are there until they are dead


def _marked(start_of_mark: str) -> dict[int, str]:
    """Command lines of the processes that have such a mark, by process."""
    entry = f"{_MARK}={start_of_mark}".encode()
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ends, or it is not ours to look at
            if any(each.startswith(entry) for each in _words(directory / "environ")):
                found[int(directory.name)] = b" ".join(_words(directory / "cmdline")).decode()
    return found


def _words(file: Path) -> list[bytes]:
    return file.read_bytes().rstrip(b"\0").split(b"\0")


@pytest.hookimpl(trylast=True)  # pytest-xdist ends its workers before
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a process has outlived the tests, and kill it."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    deadline = time.monotonic() + PATIENCE
    while (left := _left()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if not left:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    reporter.write_line("")
    for process, command in left.items():
        reporter.write_line(f"process {process} outlived the tests: {command}", red=True)
    while left := _left():
        _kill(left)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left() -> dict[int, str]:
    # multiprocessing's two helpers end when this process does.
    server: Any = multiprocessing.forkserver
    tracker: Any = multiprocessing.resource_tracker
    own = {os.getpid(), server._forkserver._forkserver_pid, tracker._resource_tracker._pid}
    return {process: line for process, line in _marked(_session).items() if process not in own}
