"""Workers of a sweep as jobs of Slurm."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from transformer_cli.child import PYTHON
from transformer_cli.errors import RunError, UsageError
from transformer_cli.packages import import_extra

FOLDER = "slurm"
"""In the sweep's directory: logs, and submitit's files."""
_DEFAULTS = {
    "job_name": "transformer-cli",
    # submitit would have USR2 sent, which ends a training at once; at TERM it saves a checkpoint.
    "signal": "TERM@120",
}
# submitit's own pipe breaks where a character of several bytes is cut, and kills the command.
_LOGGED = 'exec "$@" >"$0-$SLURM_JOB_ID.log" 2>&1'


def submit_workers(
    command: Sequence[str], directory: Path, workers: int, options: Mapping[str, str]
) -> list[str]:
    """Submit one command line as ``workers`` jobs, in one job array.

    A job's log is slurm/worker-JOB.log in the sweep's directory. submitit pickles what a job is to
    do, and how it ended, with cloudpickle into that folder, from where the job reads it. It is
    submitit's ``CommandFunction``, so that the pickle has a command line and no object of ours;
    still, whoever can write there decides what the jobs run, as is so with any job script.

    Args:
        command: of a worker; it runs in the current directory.
        directory: the sweep's, which the nodes share.
        workers: how many, at least 1.
        options: sbatch's, by their long names without the dashes in front, as in
            ``{"partition": "gpu", "time": "8:00:00", "gres": "gpu:1"}``.

    Returns:
        the ids of the jobs, as in ``4711_0``.

    Raises:
        MissingExtraError: submitit is not installed.
        UsageError: this machine has no Slurm.
        RunError: sbatch refuses the jobs.
    """
    submitit = import_extra("submitit", "slurm", "slurm")
    folder = (directory / FOLDER).absolute()
    try:
        executor = submitit.SlurmExecutor(folder, python=shlex.join(PYTHON))
    except RuntimeError as error:
        raise UsageError(
            "slurm: there is no srun here; submit on a machine of the cluster"
        ) from error
    given = {name.replace("-", "_"): value for name, value in options.items()}
    # From Slurm 22.05 on, srun does not take over from sbatch how many CPUs a task has.
    cpus = [f"--cpus-per-task={given['cpus_per_task']}"] if "cpus_per_task" in given else []
    # Without a time limit of the user's, the partition's holds, not the 5 minutes of submitit.
    executor.update_parameters(time=None, additional_parameters=_DEFAULTS | given, srun_args=cpus)
    worker = submitit.helpers.CommandFunction(
        ["sh", "-c", _LOGGED, str(folder / "worker"), *command], cwd=Path.cwd()
    )
    try:
        jobs = executor.submit_array([worker] * workers)
    except submitit.core.utils.FailedJobError as error:
        raise RunError(f"slurm: {' '.join(str(error).split())}") from error
    return [job.job_id for job in jobs]
