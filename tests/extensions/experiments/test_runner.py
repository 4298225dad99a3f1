"""The runner on one directory: it runs every job once, whatever happens to its process."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from extensions.experiments.conftest import Start
from transformer_cli.base.errors import RunError
from transformer_cli.runs.directory import lock_directory

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
    return [(kind.rstrip(":"), job) for kind, job, _ in events]


def _check_complete(sweep: Path) -> None:
    out = sweep / "out"
    assert sorted(str(path.relative_to(out)) for path in out.glob("runs/*/*")) == RUNS
    for path in out.glob("runs/*/*"):
        assert (path / "counted").read_text() == "0123456789", path


def test_every_job_runs_once_on_shared_data_and_results_stay(sweep: Path, start: Start) -> None:
    events = _events(start())
    assert sorted(job for kind, job in events if kind == "started" and "runs/" in job) == RUNS
    assert sum("data/" in job for kind, job in events if kind == "started") == 1
    _check_complete(sweep)
    files = list((sweep / "out").glob("runs/*/*/encoded/file"))
    assert len(files) == len(RUNS)
    assert len({path.stat().st_ino for path in files}) == 1
    before = _times(sweep / "out")
    assert _events(start()) == []
    assert _times(sweep / "out") == before


def _times(directory: Path) -> dict[Path, int]:
    paths = (path for path in directory.rglob("*") if path.name != ".lock")
    return {path: path.stat().st_mtime_ns for path in paths}


@pytest.mark.long
def test_killed_at_random_moments_it_goes_on(sweep: Path, start: Start) -> None:
    generator = random.Random(17)
    for _ in range(4):
        worker = start()
        time.sleep(generator.uniform(0.2, 0.9))
        worker.kill()
        worker.communicate()
    _events(start())
    _check_complete(sweep)


def test_the_jobs_of_a_killed_process_end_with_it(sweep: Path, start: Start) -> None:
    process = start(STEP_SECONDS="0.2")
    _wait_for(sweep, "runs/*/*/counted")
    process.kill()
    process.communicate()
    counted = list((sweep / "out").glob("runs/*/*/counted"))
    before = [path.read_text() for path in counted]
    time.sleep(0.5)
    assert sum(len(path.read_text()) for path in counted) <= sum(map(len, before)) + len(counted)


@pytest.mark.long
@pytest.mark.posix
def test_a_command_that_outlives_its_starter_holds_the_lock(sweep: Path, start: Start) -> None:
    (sweep / "stubborn").touch()
    killed = start(jobs=1, STUBBORN=str(sweep / "stubborn"))
    _wait_for(sweep, "runs/*/*/counted")
    killed.kill()
    killed.communicate()
    with pytest.raises(RunError, match=f"out: in use by process {killed.pid} on "):
        lock_directory(sweep / "out").__enter__()
    process = start()
    time.sleep(1)
    (sweep / "stubborn").unlink()
    (counted,) = (sweep / "out").glob("runs/*/*/counted")
    name = str(counted.parent.relative_to(sweep / "out"))
    assert ("resumed", name) in _events(process)
    _check_complete(sweep)


@pytest.mark.long
def test_a_run_that_is_deleted_is_trained_again(sweep: Path, start: Start) -> None:
    _events(start())
    shutil.rmtree(sweep / "out/runs/dropout=0.1,epochs=3/seed-1")
    events = _events(start())
    assert [job for kind, job in events if kind == "done"] == ["runs/dropout=0.1,epochs=3/seed-1"]
    _check_complete(sweep)


def test_a_failed_job_is_reported_and_the_others_continue(sweep: Path, start: Start) -> None:
    (sweep / "sweep.yaml").write_text(SWEEP.replace("0.2]", "0.5]"))
    events = _events(start())
    assert sum(kind == "failed" for kind, _ in events) == 6
    assert sum(kind == "done" and "runs/" in task for kind, task in events) == 6
    log = (sweep / "out/jobs/runs/dropout=0.5,epochs=3/seed-1.log").read_text()
    assert log == "transformer-cli: error: model.dropout: 0.5 is too much here\n"


@pytest.mark.long
def test_a_stop_ends_the_jobs_and_the_next_one_goes_on(sweep: Path, start: Start) -> None:
    process = start(STEP_SECONDS="0.2")
    _wait_for(sweep, "runs/*/*/counted")
    process.terminate()
    _events(process)
    events = _events(start())
    assert any(kind == "resumed" for kind, _ in events)
    _check_complete(sweep)


def _wait_for(sweep: Path, pattern: str, number: int = 1) -> None:
    deadline = time.monotonic() + 60
    while len(list((sweep / "out").glob(pattern))) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)
