"""A server of the tiny run, in this process or as one of its own."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import children
import pytest
from cli.conftest import Training
from starlette.testclient import TestClient

from transformer_cli.extensions.serve.command import ServeOptions, open_app

Open = Callable[..., TestClient]


@pytest.fixture
def serve(own_run: Path) -> Iterator[Open]:
    """Return a function that opens a server of a run, in this process, with some options."""
    with ExitStack() as stack:

        def open_client(*runs: Path, **options: Any) -> TestClient:
            given = replace(ServeOptions(runs=[*runs] or [own_run], threads=1), **options)
            app = stack.enter_context(open_app(given))
            return stack.enter_context(TestClient(app, "http://localhost"))

        yield open_client


@pytest.fixture
def client(serve: Open) -> TestClient:
    return serve()


class Process:
    """A server as a process of its own."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "transformer_cli", "serve", *arguments, "--port", "0"]
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        self.process = children.start(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        signal.signal(signal.SIGHUP, before)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url, self.process.communicate()[1].decode()
        self.port = int(self.url.rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End the server with a signal; return its exit code and what it logged."""
        self.process.send_signal(number)
        log = self.process.communicate(timeout=60)[1].decode()
        return self.process.returncode, log


@pytest.fixture
def served(own_run: Path) -> Process:
    return Process(own_run)


__all__ = ["Training"]
