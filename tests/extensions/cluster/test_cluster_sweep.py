"""A sweep on a cluster ends in the same bytes, whatever workers, scheduler and client suffer."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import children
import psutil
import pytest
from cli.conftest import TINY
from cli.same import assert_same_run

from extensions.cluster.dask_cluster import CAN_CUT, DaskCluster, Worker, wait_until
from extensions.experiments.conftest import Start, directory as directory, start as start
from extensions.experiments.test_runner import _events, _wait_for
from transformer_cli.extensions.cluster import fence
from transformer_cli.extensions.experiments.results import read_run_state

pytestmark = pytest.mark.posix
_COUNTING = ("--preload", "extensions.experiments.working")
_MINIMAL = "base: base.yaml\nseeds: 1\ngrid: {model.dropout: [0.1, 0.2]}\n"


# --- with a stand-in for training -----------------------------------------------------------------


@pytest.fixture
def stubborn(directory: Path) -> Path:
    """A file without which no training ends."""
    path = directory / "stubborn"
    path.touch()
    return path


@pytest.fixture
def counting(
    directory: Path, stubborn: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DaskCluster]:
    """A cluster with one worker, whose trainings count to ten; see experiments/counting.py."""
    (directory / "sweep.yaml").write_text(_MINIMAL)
    monkeypatch.setenv("STUBBORN", str(stubborn))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with DaskCluster(directory) as cluster:
        cluster.start_worker(*_COUNTING)
        yield cluster


@pytest.mark.long
def test_what_a_killed_worker_had_goes_on_and_so_it_does_without_the_client(
    counting: DaskCluster, directory: Path, stubborn: Path, start: Start
) -> None:
    worker, killed = counting.workers[0], start(counting.address)
    wait_for_training(worker, directory, "dropout=0.1")
    killed.kill()
    again = start(counting.address)
    assert again.stdout is not None
    assert again.stdout.readline().startswith(b"already running runs/dropout=0.1/seed-1 on ")
    stubborn.unlink()
    assert again.stdout.readline().startswith(b"done runs/dropout=0.1/seed-1")
    stubborn.touch()
    wait_for_training(worker, directory, "dropout=0.2")
    worker.kill()  # its training goes on
    counting.start_worker(*_COUNTING)
    wait_until(lambda: count_begun(directory, "dropout=0.2") == 2, worker.describe)
    stubborn.unlink()
    assert _events(again)[-1] == ("done", "runs/dropout=0.2/seed-1")
    assert count_begun(directory, "dropout=0.1") == 1
    _check_counted(directory / "out")


def wait_for_training(worker: Worker, directory: Path, point: str) -> None:
    counted = directory / "out/runs" / point / "seed-1/counted"
    wait_until(counted.exists, worker.describe)


def count_begun(directory: Path, point: str) -> int:
    return (directory / "out/jobs/runs" / point / "seed-1.log").read_text().count("begun")


@pytest.mark.long
def test_a_sweep_without_the_cluster_takes_jobs_over(
    counting: DaskCluster, directory: Path, stubborn: Path, start: Start
) -> None:
    killed = start(counting.address)
    wait_for_training(counting.workers[0], directory, "dropout=0.1")
    killed.kill()
    process = start(2)
    first = process.stdout.readline() if process.stdout else b""
    assert first.startswith(b"taken over runs/dropout=0.1/seed-1 from ")
    stubborn.unlink()
    assert ("done", "runs/dropout=0.1/seed-1") in _events(process)
    _check_counted(directory / "out")


@pytest.mark.long
def test_a_stop_reaches_a_job_whose_worker_was_lost(
    counting: DaskCluster, directory: Path, stubborn: Path, start: Start
) -> None:
    out, worker, process = directory / "out", counting.workers[0], start(counting.address)
    wait_for_training(worker, directory, "dropout=0.1")
    (training,) = worker.family()
    worker.stop()
    process.terminate()
    wait_until(lambda: [*out.rglob("*.stop")], worker.describe)
    counting.start_worker(*_COUNTING)
    _events(process)
    assert not [*out.rglob("*.stop")]
    worker.go_on()
    psutil.wait_procs([training], 60)
    assert not training.is_running()
    stubborn.unlink()
    assert ("done", "runs/dropout=0.2/seed-1") in _events(start(counting.address))
    _check_counted(out)


def _check_counted(out: Path) -> None:
    for dropout in ("0.1", "0.2"):
        run = f"runs/dropout={dropout}/seed-1"
        assert (out / run / "counted").read_text() == "0123456789"
        assert read_run_state(out, run) == "done"


# --- with trainings -------------------------------------------------------------------------------

_GRID = """\
base: tiny.yaml
seeds: 2
grid: {model.dropout: [0.0, 0.2], training.schedule.peak: [3e-3, 1e-2]}
evaluate: [test]
"""
_RUNS = 8


def sweep(directory: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Start a sweep of 2 x 2 points and 2 seeds, of 200 steps each."""
    (directory / "tiny.yaml").write_text(TINY.replace("epochs: 12", "epochs: 40"))
    (directory / "grid.yaml").write_text(_GRID)
    command = [sys.executable, "-m", "transformer_cli", "sweep", "grid.yaml", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    fixed = ["--threads", "1", "--precision", "float32"]
    with (directory / "said").open("ab") as file:
        return children.start(
            [*command, *fixed], cwd=directory, env=environment, stdout=file, stderr=file
        )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("alone")
    assert sweep(directory, "--jobs", "2").wait(1200) == 0, (directory / "said").read_text()
    return directory / "sweeps/grid"


class Sweeping:
    """A sweep on a cluster, in whose trainings something happens."""

    def __init__(self, directory: Path, cluster: DaskCluster) -> None:
        self.directory, self.cluster = directory, cluster
        self.out = directory / "sweeps/grid"
        self.process = sweep(directory, "--cluster", cluster.address)

    def describe(self) -> str:
        return (self.directory / "said").read_text()

    def wait_for_training(self, worker: Worker) -> Path:
        """Wait until a worker's training has a checkpoint; return the job's owner."""

        found: list[Path] = []

        def trains() -> bool:
            for process in worker.family():
                with suppress(psutil.Error, ValueError):  # it has ended, or is another command
                    line = process.cmdline()
                    run = self.directory / line[line.index("--run-dir") + 1]
                    if [*run.glob("checkpoints/step-????????")] and "train" in line:
                        found.append(run.relative_to(self.out))
            return bool(found)

        wait_until(trains, self.describe)
        return self.out / "jobs" / f"{found[0]}.owner"

    def wait_for_takeover(self, owner: Path) -> None:
        """Wait until another worker has started a job."""
        owned = owner.read_text()
        wait_until(lambda: owner.exists() and owner.read_text() != owned, self.describe)


def killed(sweeping: Sweeping, worker: Worker) -> Worker:
    worker.kill()
    return sweeping.cluster.start_worker()


def stopped(sweeping: Sweeping, worker: Worker, with_family: bool = False) -> Worker:
    owner = sweeping.wait_for_training(worker)
    worker.stop(with_family)
    other = sweeping.cluster.start_worker(apart=worker.network is not None)
    sweeping.wait_for_takeover(owner)
    worker.go_on()
    return other


def frozen(sweeping: Sweeping, worker: Worker) -> Worker:
    return stopped(sweeping, worker, with_family=True)


def cut_off(sweeping: Sweeping, worker: Worker) -> Worker:
    owner = sweeping.wait_for_training(worker)
    worker.cut()
    other = sweeping.cluster.start_worker()
    sweeping.wait_for_takeover(owner)
    worker.mend()
    return other


def without_scheduler(sweeping: Sweeping, worker: Worker) -> Worker:
    sweeping.cluster.scheduler.kill()
    sweeping.cluster.start_scheduler()
    sweeping.cluster.start_worker()
    return sweeping.cluster.start_worker()


def without_client(sweeping: Sweeping, worker: Worker) -> Worker:
    owner = sweeping.wait_for_training(worker)
    sweeping.process.kill()
    name = owner.with_suffix("").relative_to(sweeping.out / "jobs")
    owned = owner.read_text()
    sweeping.process = sweep(sweeping.directory, "--cluster", sweeping.cluster.address)
    wait_until(lambda: f"{name}: already running on " in sweeping.describe(), sweeping.describe)
    assert not owner.exists() or owner.read_text() == owned
    return worker


Fault = Callable[[Sweeping, Worker], Worker]
_HERE: tuple[Fault, ...] = (killed, stopped, frozen, without_scheduler)
_ELSEWHERE: tuple[Fault, ...] = (without_client, stopped, frozen, cut_off)


@pytest.mark.long
@pytest.mark.parametrize("faults", [_HERE, _ELSEWHERE], ids=["here", "elsewhere"])
def test_a_sweep_ends_in_the_same_bytes(
    alone: Path, tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    if faults is _ELSEWHERE and not CAN_CUT:
        pytest.skip("needs network namespaces, and to be root")
    with DaskCluster(tmp_path) as cluster:
        worker = cluster.start_worker(apart=faults is _ELSEWHERE)
        cluster.start_worker()
        sweeping = Sweeping(tmp_path, cluster)
        for fault in faults:
            sweeping.wait_for_training(worker)
            worker = fault(sweeping, worker)
        assert sweeping.process.wait(1200) == 0, sweeping.describe()
    assert "failed" not in sweeping.describe()
    runs = [path.relative_to(alone) for path in alone.glob("runs/*/*")]
    assert len(runs) == _RUNS
    for run in runs:
        assert_same_run(sweeping.out / run, alone / run)
        for name in ("translations.txt", "scores.json"):
            scored = Path("scores/test", *run.parts[1:], name)
            assert (sweeping.out / scored).read_bytes() == (alone / scored).read_bytes()


@pytest.mark.posix
def test_a_job_that_is_taken_over_is_started_again(directory: Path, start: Start) -> None:
    (directory / "sweep.yaml").write_text(
        "base: base.yaml\nseeds: 1\ngrid: {model.dropout: [0.1]}\n"
    )
    process = start(jobs=1, STEP_SECONDS="0.1")
    _wait_for(directory, "runs/*/*/counted")
    (owner,) = (directory / "out/jobs/runs").rglob("*.owner")
    fence.raise_fence(owner)
    assert [kind for kind, _ in _events(process)] == ["started", "done"] * 2
    (counted,) = (directory / "out").glob("runs/*/*/counted")
    assert counted.read_text() == "0123456789"
