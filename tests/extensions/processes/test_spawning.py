"""No process outlives its starter, and a process that dies gives a one-line error."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from children import start
from lost_worker import load_or_die

from transformer_cli.base.errors import WorkerError
from transformer_cli.config.tokenizer_schema import SentencePieceConfig
from transformer_cli.data import corpus
from transformer_cli.data.corpus import ParallelFiles, StreamedText
from transformer_cli.data.store import load_once, write_store
from transformer_cli.extensions.processes import spawning
from transformer_cli.extensions.processes.lazy_pool import LazyPool
from transformer_cli.text.tokenizer import TrainingText, learn_tokenizers

SRC = [f"{n} Hunde, {n * 7 % 13} Katzen \u2028 und ein Vogel" * (n % 9 > 0) for n in range(60)]
TGT = [f"{n} dogs, {n * 7 % 13} cats and a bird" for n in range(60)]
SUBWORDS = SentencePieceConfig(kind="sentencepiece", vocab_size=60, byte_fallback=False)

# A program for tests to start: endless work in its main module.
ENDLESS = """
import sys
import time
from transformer_cli.extensions.processes.spawning import open_pool

if __name__ == "__main__":
    with open_pool(2) as pool:
        naps = [pool.submit(time.sleep, 0.01) for _ in range(20_000)]
        for number, nap in enumerate(naps):
            nap.result()
            if number == 5:
                print("working", flush=True)
            if number == 9 and sys.argv[1] == "fails":
                raise RuntimeError("elsewhere than in a worker")
"""


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    learn_tokenizers(SUBWORDS, TrainingText("de", "en", SRC, TGT, "sum"), directory)
    return directory


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParallelFiles:
    """The text in files, of eight blocks."""
    monkeypatch.setattr(corpus, "BLOCK_PAIRS", 8)
    monkeypatch.setattr(corpus, "MIN_PAIRS_FOR_WORKERS", 1)
    for name, lines in (("src", SRC), ("tgt", TGT)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return ParallelFiles(tmp_path / "src", tmp_path / "tgt")


def children() -> set[int]:
    """Unfinished processes that this one has started, except for Python's helpers."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = status.read_text().split(" (", 1)
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        state, parent = rest.rsplit(")", 1)[1].split()[:2]
        if int(parent) == os.getpid() and state != "Z" and b"spawn_main" in command:
            found.add(int(number))
    return found


def test_processes_end_with_the_block(
    files: ParallelFiles, tokenizers: Path, tmp_path: Path
) -> None:
    load = partial(load_once, tokenizers, "print")
    with LazyPool(2) as pool:
        assert children() == set()
        text = StreamedText.of(files, executor=pool)
        write_store(tmp_path / "store", text, load, "print", pool)
        assert children()
    assert children() == set()


def test_ctrl_c_is_left_to_the_main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(signal, "pthread_sigmask")
    with spawning.block_sigint():
        pass  # nothing can be blocked: a worker ignores it
    monkeypatch.setitem(sys.modules, "torch", sys.modules["torch"])  # put back: workers hide it
    monkeypatch.setattr(spawning, "_end_with_parent", lambda: None)
    before = signal.getsignal(signal.SIGINT)
    try:
        spawning._begin_worker()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.posix
def test_a_killed_worker_is_one_line(
    tmp_path: Path, tokenizers: Path, files: ParallelFiles
) -> None:
    load = partial(load_or_die, tokenizers, tmp_path / "died")
    with (
        pytest.raises(WorkerError, match=r"^a worker process was killed or crashed; [^\n]*$"),
        LazyPool(2) as pool,
    ):
        write_store(tmp_path / "store", StreamedText.of(files), load, "print", pool)
    assert children() == set()
    assert not [*tmp_path.glob("store*")]


@pytest.mark.long_cases
@pytest.mark.posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_however_the_program_ends_its_workers_do(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    command = [sys.executable, str(script), "goes on"]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"working\n"
    assert len(in_session(process.pid)) >= 3
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C does
    else:
        process.send_signal(number)
    # When the last process has ended, nobody holds the other end of stderr.
    _, said = process.communicate(timeout=60)
    assert b"leaked" not in said
    # There is one traceback, the script's own, because it does not handle Ctrl-C.
    assert said.count(b"Traceback") == (number == signal.SIGINT)
    assert process.returncode == -number
    deadline = time.monotonic() + 60
    while in_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert in_session(process.pid) == set()


def test_trouble_elsewhere_leaves_no_worker(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    command = [sys.executable, str(script), "fails"]
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.count(b"Traceback") == 1


def in_session(leader: int) -> set[int]:
    """Unfinished processes of a session."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *_ = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.add(int(status.parent.name))
    return found
