"""No process outlives its test, and one that does fails the whole suite."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import children
import pytest

pytestmark = pytest.mark.posix

TESTS = Path(__file__).parent
# A session's leader that is gone, and one in a session of its own that stays.
ORPHANS = """\
setsid sleep 4321 &
sleep 4322 &
echo started
"""


def alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def test_what_a_test_has_started_ends_with_all_that_it_started() -> None:
    process = children.start(["sh", "-c", ORPHANS + "echo $!; wait"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    grandchild = int(process.stdout.readline())
    assert alive(grandchild)
    children.end_all()
    assert not alive(grandchild)
    assert process.stdout.read() == b"", "somebody still holds the other end"
    assert process.returncode == -signal.SIGKILL


def test_what_its_leader_has_left_behind_ends_too() -> None:
    process = children.start(["sh", "-c", ORPHANS], stdout=subprocess.PIPE)
    assert process.wait() == 0
    children.end_all()
    assert process.stdout is not None
    assert process.stdout.read() == b"started\n"


# --- a suite --------------------------------------------------------------------------------------

LEAKY = """\
import subprocess

def test_leaves_a_process():
    subprocess.Popen(["sleep", "4323"], start_new_session=True)
"""
CLEAN = """\
import children

def test_leaves_none():
    children.start(["sleep", "4324"])
"""
CONFTEST = """\
import children, pytest
from children import pytest_sessionfinish
children.PATIENCE = 0.2

@pytest.fixture(autouse=True)
def _no_process_outlives_its_test():
    yield
    children.end_all()
"""


@pytest.fixture(params=[[], ["-n", "1"]], ids=["one process", "workers"])
def suite(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """A command that runs the tests in a directory."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return [sys.executable, "-m", "pytest", *request.param, str(tmp_path)]


def finished(suite: list[str]) -> tuple[int, str]:
    """How a suite of its own ends, and what it says."""
    environment = {key: value for key, value in os.environ.items() if "XDIST" not in key}
    environment["PYTHONPATH"] = str(TESTS)
    process = children.start(suite, env=environment, stdout=subprocess.PIPE)
    out, _ = process.communicate()
    return process.returncode, out.decode()


@pytest.mark.long
def test_a_process_that_outlives_the_suite_fails_it(suite: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_leaky.py").write_text(LEAKY)
    (tmp_path / "test_clean.py").write_text(CLEAN)
    code, out = finished(suite)
    assert "2 passed" in out
    said = [line for line in out.splitlines() if "outlived the tests" in line]
    assert len(said) == 1
    assert said[0].endswith(": sleep 4323")
    assert code == 1
    assert not alive(int(said[0].split()[1]))


@pytest.mark.long
def test_a_suite_started_with_sigint_ignored_has_it_back(tmp_path: Path) -> None:
    (tmp_path / "test_sigint.py").write_text(
        "import signal, subprocess, sys\n"
        "show = 'import signal; raise SystemExit(signal.getsignal(2) is signal.SIG_IGN)'\n"
        "def test_sigint():\n"
        "    assert signal.getsignal(2) is signal.default_int_handler\n"
        "    assert subprocess.run([sys.executable, '-c', show]).returncode == 0\n"
    )
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    command = f"trap '' INT; exec {sys.executable} -m pytest -n 1 {tmp_path}"
    code, out = finished(["sh", "-c", command])
    assert code == 0, out
