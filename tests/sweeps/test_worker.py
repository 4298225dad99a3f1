"""Workers on one directory: every task once, whatever happens to a worker."""

import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweeps.conftest import Start

SWEEP = """\
base: base.yaml
seeds: 3
grid: {model.dropout: [0.1, 0.2], training.epochs: [3, 4]}
"""
RUNS = sorted(
    f"runs/dropout={dropout},epochs={epochs}/seed-{seed}"
    for dropout in (0.1, 0.2)
    for epochs in (3, 4)
    for seed in (1, 2, 3)
)


@pytest.fixture
def sweep(directory: Path) -> Path:
    (directory / "sweep.yaml").write_text(SWEEP)
    return directory


def _events(worker: "subprocess.Popen[bytes]") -> list[tuple[str, str]]:
    out, _ = worker.communicate()
    assert worker.returncode == 0
    events = [line.split(" ", 2) for line in out.decode().splitlines()]
    return [(kind, task) for kind, task, _ in events]


def _check_complete(sweep: Path) -> None:
    out = sweep / "out"
    assert sorted(str(path.relative_to(out)) for path in out.glob("runs/*/*")) == RUNS
    for path in out.glob("runs/*/*/counted"):
        assert path.read_text() == "0123456789", path
    assert not [path for path in (out / "attempts").rglob("*") if path.is_file()]


def test_a_worker_does_every_task_once(sweep: Path, start: Start) -> None:
    events = _events(start())
    assert sorted(task for kind, task in events if kind == "started" and "runs/" in task) == RUNS
    assert sum("data/" in task for kind, task in events if kind == "started") == 1
    _check_complete(sweep)


def test_runs_share_the_data_that_their_settings_agree_on(sweep: Path, start: Start) -> None:
    _events(start())
    files = list((sweep / "out").glob("runs/*/*/encoded/file"))
    assert len(files) == len(RUNS)
    assert len({path.stat().st_ino for path in files}) == 1


def test_a_finished_sweep_is_left_as_it_is(sweep: Path, start: Start) -> None:
    _events(start())
    before = {path: path.stat().st_mtime_ns for path in (sweep / "out").rglob("*")}
    assert _events(start()) == []
    assert {path: path.stat().st_mtime_ns for path in (sweep / "out").rglob("*")} == before


def test_killed_at_random_moments_it_goes_on(sweep: Path, start: Start) -> None:
    generator = random.Random(17)
    for _ in range(6):
        worker = start()
        time.sleep(generator.uniform(0.2, 0.9))
        worker.kill()
        worker.communicate()
    _events(start())
    _check_complete(sweep)


def test_the_tasks_of_a_killed_worker_end_with_it(sweep: Path, start: Start) -> None:
    worker = start(STEP_SECONDS="0.2")
    _wait_for(sweep, "attempts/runs/*/*/counted")
    worker.kill()
    worker.communicate()
    counted = list((sweep / "out/attempts").glob("runs/*/*/counted"))
    before = [path.read_text() for path in counted]
    time.sleep(0.5)
    assert sum(len(path.read_text()) for path in counted) <= sum(map(len, before)) + len(counted)


@pytest.mark.posix
def test_of_two_workers_one_stopped_and_one_killed_every_run_is_done_once(
    sweep: Path, start: Start
) -> None:
    short = {"TRANSFORMER_CLI_LEASE_SECONDS": "1.5", "STEP_SECONDS": "0.1"}
    stopped, killed = start(**short), start(**short)
    _wait_for(sweep, "attempts/runs/*/*/counted", 3)
    # The processes of its tasks are in sessions of their own, and are stopped too.
    group = [stopped.pid, *_children_of(stopped.pid)]
    for process in group:
        os.kill(process, signal.SIGSTOP)
    killed.kill()
    killed.communicate()
    _events(start(**short))
    _check_complete(sweep)
    runs = {path: path.stat().st_mtime_ns for path in (sweep / "out/runs").rglob("*")}
    for process in group:
        with suppress(ProcessLookupError):  # one may have ended
            os.kill(process, signal.SIGCONT)
    events = _events(stopped)
    assert "lost" in dict(events)
    assert {path: path.stat().st_mtime_ns for path in (sweep / "out/runs").rglob("*")} == runs
    _check_complete(sweep)


def test_a_run_that_is_trained_again_loses_its_scores(sweep: Path, start: Start) -> None:
    _events(start())
    out = sweep / "out"
    for point in ("dropout=0.1,epochs=3", "dropout=0.2,epochs=3"):
        (out / f"scores/test/{point}/seed-1").mkdir(parents=True)
    shutil.rmtree(out / "runs/dropout=0.1,epochs=3/seed-1")
    _events(start())
    assert not (out / "scores/test/dropout=0.1,epochs=3/seed-1").exists()
    assert (out / "scores/test/dropout=0.2,epochs=3/seed-1").exists()


def test_a_failed_task_is_told_and_the_others_go_on(sweep: Path, start: Start) -> None:
    (sweep / "sweep.yaml").write_text(SWEEP.replace("0.2]", "0.5]"))
    events = _events(start())
    assert sum(kind == "failed" for kind, _ in events) == 6
    assert sum(kind == "done" and "runs/" in task for kind, task in events) == 6
    message = (sweep / "out/failures/runs/dropout=0.5,epochs=3/seed-1.txt").read_text()
    assert message == "model.dropout: 0.5 is too much here\n"


def test_a_stop_ends_the_tasks_and_gives_them_back(sweep: Path, start: Start) -> None:
    worker = start(STEP_SECONDS="0.2")
    _wait_for(sweep, "attempts/runs/*/*/counted")
    worker.terminate()
    _events(worker)
    for path in (sweep / "out/leases").glob("runs/*/*[0-9]"):
        assert path.with_name(f"{path.name}.released").exists()
    _events(start())
    _check_complete(sweep)


def _wait_for(sweep: Path, pattern: str, number: int = 1) -> None:
    deadline = time.monotonic() + 60
    while len(list((sweep / "out").glob(pattern))) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _children_of(process: int) -> list[int]:
    return [each.pid for each in psutil.Process(process).children(recursive=True)]
