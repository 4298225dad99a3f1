"""Run the program for the tests, each time in its own process.

Importing torch and spaCy takes seconds. Most runs are therefore forked from a server that has
imported all modules and computed nothing. Tests of the interpreter's start or end, or of a
terminal, start a new interpreter, as a user's shell does.
"""

import contextlib
import multiprocessing
import multiprocessing.forkserver
import os
import pkgutil
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import children

PATIENCE = 600.0
"""Seconds after which a process is considered hung."""

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
# The first test that runs the program, in any file, starts the server. The server gets the
# environment and the directory from before all tests, not those that this test has set.
_AT_FIRST = {**os.environ, **_ENVIRONMENT}
_ROOT = Path(__file__).parents[2]
_WARM = "cli.warm"
USERS_PATH = "TRANSFORMER_CLI_TESTS_PYTHONPATH"
IN_FORKS: list[Callable[[], None]] = []
"""Called in each fork first; from tests/extensions/NAME/in_forks.py."""

_starting = threading.Lock()
_can_fork = sys.platform != "win32"
_forks: Any = multiprocessing.get_context("forkserver" if _can_fork else "spawn")


@dataclass(frozen=True)
class Finished:
    """What a process left behind; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str


def _ensure_server() -> None:
    """Start the server that runs are forked from, unless it runs; it keeps its environment."""
    if not _can_fork:
        return
    _forks.set_forkserver_preload([_WARM])
    environment = {**_AT_FIRST, "PYTHONPATH": str(_ROOT / "tests")}
    if (path := _AT_FIRST.get("PYTHONPATH")) is not None:
        environment[USERS_PATH] = path
    with _starting, patch.dict(os.environ, environment, clear=True), contextlib.chdir(_ROOT):
        multiprocessing.forkserver.ensure_running()


def with_precision(arguments: Sequence[str | Path]) -> list[str | Path]:
    """Train in float32 unless a test sets the precision: auto depends on the machine."""
    is_training = arguments[:1] in (("train",), ("sweep",))
    if not is_training or "--precision" in arguments:
        return list(arguments)
    return [*arguments, "--precision", "float32"]


def run(
    *arguments: str | Path,
    cwd: Path | None = None,
    stdin: bytes = b"",
    before: Callable[[], None] | None = None,
) -> Finished:
    """Run the program to its end in a fork, which the tests of extensions may prepare.

    Args:
        arguments: the command line after the program's name.
        cwd: the current directory.
        stdin: what it reads.
        before: called in the new process first.
    """
    _ensure_server()
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / name for name in ("stdin", "stdout", "stderr")]
        for file in files:
            file.write_bytes(stdin if file.name == "stdin" else b"")
        command_line = [str(each) for each in with_precision(arguments)]
        process = _forks.Process(target=_be_the_program, args=(command_line, cwd, files, before))
        process.start()
        assert process.pid is not None
        try:
            process.join(PATIENCE)
        finally:
            process.kill()
            children.kill_group(process.pid)
            process.join()
        assert process.exitcode is not None
        out, err = (file.read_bytes() for file in files[1:])
        return _finished(process.exitcode, out, err)


def _finished(code: int, out: bytes, err: bytes) -> Finished:
    """Decode the output of a process, without torch's lines about Gloo (before torch 2.13)."""
    return Finished(
        code, out.decode(), re.sub(r"^\[Gloo\] Rank .*\n", "", err.decode(), flags=re.M)
    )


def _be_the_program(
    arguments: list[str], cwd: Path | None, files: list[Path], before: Callable[[], None] | None
) -> None:
    if _can_fork:
        os.setsid()
    from transformer_cli.cli import main

    for prepare in IN_FORKS:
        prepare()
    for descriptor, (file, mode) in enumerate(zip(files, ("rb", "wb", "wb"), strict=True)):
        with file.open(mode) as opened:
            os.dup2(opened.fileno(), descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8")  # type: ignore[misc]
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8")
    # The server leaves out in silence what it cannot import.
    assert _WARM in sys.modules or not _can_fork
    sys.argv = ["transformer-cli", *arguments]
    if cwd is not None:
        os.chdir(cwd)
    if before is not None:
        before()
    main()


def run_ranks(
    size: int,
    *arguments: str | Path,
    cwd: Path | None = None,
    before: Callable[[int], None] | None = None,
) -> list[Finished]:
    """Run the program in several processes of one job, as torchrun would start them.

    Args:
        size: how many.
        arguments: the command line after the program's name.
        cwd: the current directory.
        before: called in each new process first, given its rank.
    """
    port = _free_port()

    def of_rank(rank: int) -> Finished:
        return run(*arguments, cwd=cwd, before=partial(_take_rank, rank, size, port, before))

    with ThreadPoolExecutor(size) as executor:
        return list(executor.map(of_rank, range(size)))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _take_rank(rank: int, size: int, port: int, before: Callable[[int], None] | None) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    if before is not None:
        before(rank)


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``python -m transformer_cli`` as ``children.start`` does, given its options."""
    environment = {**os.environ, **_ENVIRONMENT}
    environment.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-m", "transformer_cli", *with_precision(arguments)]
    return children.start(command, env=environment, **options)


def run_anew(*arguments: str | Path, cwd: Path, stdin: bytes = b"") -> Finished:
    """Run ``python -m transformer_cli`` to its end."""
    process = start(
        *arguments,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(stdin, timeout=PATIENCE)
    return _finished(process.returncode, out, err)


def signal_at(
    where: str,
    attribute: str,
    call: int,
    number: int = getattr(signal, "SIGKILL", signal.SIGTERM),
    times: int = 1,
) -> None:
    """Have the process send itself a signal right before the n-th call of a function.

    Args:
        where: module or ``module:Class`` that holds the function.
        attribute: the function's name there.
        call: which call, from 1.
        number: which signal.
        times: how often it is sent.
    """
    owner = pkgutil.resolve_name(where)
    function = getattr(owner, attribute)
    calls = count(1)

    def signalling(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            for _ in range(times):
                os.kill(os.getpid(), number)
        return function(*args, **kwargs)

    setattr(owner, attribute, signalling)


def assert_refused(finished: Finished, code: int, *fragments: str) -> None:
    """Check that a process printed one line of error, nothing on stdout, and has the exit code."""
    assert finished.err.startswith("transformer-cli: error: ")
    assert finished.err.count("\n") == 1
    assert finished.err.endswith("\n")
    assert finished.out == ""
    for fragment in fragments:
        assert fragment in finished.err
    assert finished.code == code
