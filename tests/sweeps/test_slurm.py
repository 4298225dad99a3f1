"""Workers on Slurm, with stand-ins of sbatch and srun; a real cluster has not seen this."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_cli.errors import RunError, UsageError
from transformer_cli.sweeps.slurm import submit_workers

pytest.importorskip("submitit")
pytestmark = pytest.mark.posix

SBATCH = """#!/bin/sh
cp "$1" {cluster}/script.sh
echo Submitted batch job 4711
"""
SRUN = f"""#!/bin/sh
while [ "$1" != {sys.executable} ]; do echo "$1" >>{{cluster}}/srun; shift; done
exec "$@"
"""


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins of Slurm's programs on the PATH, in a directory that they write to."""
    there = tmp_path / "cluster"
    there.mkdir()
    write_program(there / "sbatch", SBATCH.format(cluster=there))
    write_program(there / "srun", SRUN.format(cluster=there))
    monkeypatch.setenv("PATH", f"{there}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.chdir(tmp_path)
    return there


def start_job(cluster: Path, job: int, task: int | None) -> int:
    """Run the submitted script as Slurm would; return its exit code."""
    array = {} if task is None else {"ARRAY_JOB_ID": "4711", "ARRAY_TASK_ID": str(task)}
    slurm = {"JOB_ID": str(job), "NTASKS": "1", "JOB_NUM_NODES": "1", "PROCID": "0"} | array
    env = os.environ | {f"SLURM_{name}": value for name, value in slurm.items()}
    script = ["bash", str(cluster / "script.sh")]
    return subprocess.run(script, env=env, capture_output=True, timeout=60).returncode


def test_each_worker_runs_the_command_line_here_with_its_own_log(cluster: Path) -> None:
    command = ["sh", "-c", "echo $SLURM_ARRAY_TASK_ID; pwd; echo 'ein Hünd' >&2", "'quoted' $HOME"]
    options = {"partition": "gpu", "time": "8:00:00", "cpus-per-task": "4", "gres": "gpu:1"}
    sweep = Path("sweeps/rates")
    assert submit_workers(command, sweep, 2, options) == ["4711_0", "4711_1"]
    assert [start_job(cluster, 4711 + task, task) for task in (0, 1)] == [0, 0]
    for task in (0, 1):
        log = sweep / "slurm" / f"worker-{4711 + task}.log"
        assert log.read_text() == f"{task}\n{Path.cwd()}\nein Hünd\n"
    script = (cluster / "script.sh").read_text()
    for option in (
        "--array=0-1%2",
        "--partition=gpu",
        "--time=8:00:00",
        "--cpus-per-task=4",
        "--gres=gpu:1",
        "--signal=TERM@120",
        "--job-name=transformer-cli",
    ):
        assert script.count(f"#SBATCH {option}\n") == 1
        assert script.count(f"#SBATCH {option.partition('=')[0]}=") == 1
    assert "--cpus-per-task=4" in (cluster / "srun").read_text()


def test_one_worker_is_a_job_and_fails_with_its_command(cluster: Path) -> None:
    assert submit_workers(["false"], Path("sweep"), 1, {"job-name": "mine"}) == ["4711"]
    script = (cluster / "script.sh").read_text()
    assert "#SBATCH --job-name=mine\n" in script
    assert "--time" not in script  # the partition's limit, not submitit's 5 minutes
    assert start_job(cluster, 4711, None) != 0


def test_a_job_runs_no_file_of_the_working_directory(cluster: Path, tmp_path: Path) -> None:
    for name in ("random", "submitit", "cloudpickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    assert submit_workers(["true"], Path("sweep"), 1, {}) == ["4711"]
    assert start_job(cluster, 4711, None) == 0


def test_the_words_of_sbatch_are_passed_on(cluster: Path) -> None:
    write_program(cluster / "sbatch", "#!/bin/sh\necho 'sbatch: error: no such gpu' >&2\nexit 1\n")
    with pytest.raises(RunError, match=r"slurm: .*sbatch: error: no such gpu"):
        submit_workers(["true"], Path("sweep"), 2, {"gres": "gpu:9"})


def test_where_there_is_no_slurm_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no srun here"):
        submit_workers(["true"], tmp_path / "sweep", 2, {})
    assert not (tmp_path / "sweep").exists()
