"""Of the processes that were started for a job, the newest alone writes: stopped ones come back."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import children
import psutil
import pytest

from transformer_cli.base.errors import OutputError, RunError
from transformer_cli.extensions.cluster import fence
from transformer_cli.extensions.experiments import child
from transformer_cli.extensions.experiments.child import Command, run_command
from transformer_cli.inference.output import output_file
from transformer_cli.runs.directory import lock_directory

_BEGIN = """\
import sys
from pathlib import Path
from transformer_cli.extensions.cluster import fence
from transformer_cli.base import locations
from transformer_cli.base import writing

def wait():
    print(flush=True)
    sys.stdin.readline()

"""
TERMS = {"model": "that"}


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return tmp_path / "job.owner"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Go to another machine: nothing here can be killed from there."""
    return lambda: monkeypatch.setattr("platform.node", lambda: "elsewhere")


def start(owner: Path, program: str) -> "subprocess.Popen[bytes]":
    """Start a process of the job, and wait until it does."""
    process = children.start(
        [sys.executable, "-c", _BEGIN + program],
        env={**os.environ, fence.VARIABLE: fence.raise_fence(owner)},
        cwd=owner.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def go_on(process: "subprocess.Popen[bytes]") -> int:
    """Have it go on; return its exit code."""
    process.communicate(b"\n")
    return process.returncode


def test_a_replaced_process_ends_wherever_it_is(owner: Path, elsewhere: Callable[[], None]) -> None:
    process = start(owner, "print(flush=True); fence.FENCE.watch()")
    elsewhere()
    fence.raise_fence(owner)
    assert process.wait(60) == fence.EXIT_CODE


@pytest.mark.posix
def test_on_this_machine_it_is_killed_with_all_that_it_started(owner: Path) -> None:
    family = "import subprocess; subprocess.Popen(['sleep', '60']); wait()"
    process, stranger = start(owner, family), start(owner.with_name("other"), "wait()")
    (started,) = psutil.Process(process.pid).children()
    os.killpg(process.pid, signal.SIGSTOP)
    fence.raise_fence(owner)
    assert process.wait(60) == -signal.SIGKILL
    psutil.wait_procs([started], 60)
    assert not started.is_running()
    assert go_on(stranger) == 0


WRITING = {
    "file": "with writing.whole_file(Path('made')) as new: new.touch(); wait()",
    "directory": "with writing.whole_directory(Path('made')): wait()",
    "log": "wait(); locations.open_regular(Path('made'), 'ab').write(b'more')",
    "removal": "Path('kept').mkdir(); wait(); writing.remove_directory(Path('kept'))",
}


@pytest.mark.parametrize("program", WRITING.values(), ids=WRITING)
def test_what_a_replaced_process_was_writing_does_not_appear(
    owner: Path, elsewhere: Callable[[], None], program: str
) -> None:
    process = start(owner, program)
    elsewhere()
    fence.raise_fence(owner)
    assert go_on(process) == fence.EXIT_CODE
    assert not (owner.parent / "made").exists()
    assert (owner.parent / "kept").exists() == ("kept" in program)


def test_without_its_file_a_process_is_replaced(owner: Path) -> None:
    process = start(owner, WRITING["file"])
    owner.unlink()
    assert go_on(process) == fence.EXIT_CODE


OUTPUT = """\
from transformer_cli.inference.output import output_file
with output_file(Path({!r}), {{}}, iter(())):
    wait()
"""


def test_a_replaced_process_loses_the_lock_of_its_output(
    owner: Path, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = owner.parent / "made"
    stopped = start(owner, OUTPUT.format(str(path)))
    elsewhere()
    with pytest.raises(OutputError, match="another process"), output_file(path, {}, iter(())):
        pass
    monkeypatch.setenv(fence.VARIABLE, fence.raise_fence(owner))
    with output_file(path, {}, iter(())):
        assert go_on(stopped) == fence.EXIT_CODE
    assert path.read_bytes() == b""


LOCKING = """\
from transformer_cli.runs.directory import lock_directory
with lock_directory(Path('{}')): wait()
"""


def test_a_replaced_process_loses_its_lock_and_others_keep_theirs(
    owner: Path, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = start(owner, LOCKING.format("run"))
    other = start(owner.with_name("other"), LOCKING.format("2"))
    elsewhere()
    monkeypatch.setenv(fence.VARIABLE, fence.raise_fence(owner))
    monkeypatch.setattr(fence.FENCE, "patience", 0.1)
    with lock_directory(owner.parent / "run"), pytest.raises(RunError, match="in use by"):
        lock_directory(owner.parent / "2").__enter__()
    assert go_on(stopped) == 0
    assert go_on(other) == 0


TRANSLATING = f"""\
from transformer_cli.inference.output import output_file
with output_file(Path('out'), {TERMS}, iter(())) as output:
    output.write('ab', 'ab')
    wait()
    output.write('cd', ['c', 'of the replaced'])
"""


def test_a_replaced_process_adds_nothing_to_translations(
    owner: Path, elsewhere: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = start(owner, TRANSLATING)
    elsewhere()
    monkeypatch.setenv(fence.VARIABLE, fence.raise_fence(owner))
    lines = iter("abcd")
    with output_file(owner.parent / "out", TERMS, lines) as output:
        assert output.kept == 2
        assert go_on(stopped) == fence.EXIT_CODE
        rest = [*lines]
        output.write(rest, rest)
    assert (owner.parent / "out").read_text() == "a\nb\nc\nd\n"


# --- who starts jobs ------------------------------------------------------------------------------


@pytest.fixture
def command(owner: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run for a minute, or until it is asked to end."""
    program = "import time; print(flush=True); time.sleep(60)"
    monkeypatch.setattr(child, "CHILD", (sys.executable, "-c", program))
    where = owner.parent
    return Command([], where, where / "stop", owner, where / "out", where / "log")


def test_a_stop_outlives_the_worker_that_was_to_see_it(command: Command) -> None:
    ended: list[child.Ended] = []
    worker = threading.Thread(target=lambda: ended.append(run_command(command)))
    worker.start()
    while not command.owner.exists():
        time.sleep(0.01)
    time.sleep(0.3)
    fence.lift_fence(command.owner)
    command.stop.touch()
    worker.join(60)
    assert ended[0].code == fence.EXIT_CODE
    assert command.stop.exists()
    assert run_command(command).code == 143
    assert not command.stop.exists()
    assert not command.owner.exists()
    assert command.stdout is not None
    assert not command.stdout.exists()


def test_a_directory_that_the_worker_lacks_is_told(command: Command) -> None:
    ended = run_command(command._replace(directory=Path("/nowhere")))
    assert ended.message.endswith(
        "has no directory /nowhere; work on a disk that all workers see under one path"
    )
