"""Which runs a sweep's directory leads to."""

from pathlib import Path

import pytest

from transformer_cli.base.errors import RunError
from transformer_cli.runs.directory import RunDirectory


def test_a_sweep_and_a_directory_of_sweeps_lead_to_their_runs(tmp_path: Path) -> None:
    sweep = tmp_path / "sweeps" / "sw"
    for name in ("data/fd9dcf32a095", "runs/a=1/seed-1", "runs/a=2/seed-1"):
        (sweep / name).mkdir(parents=True)
        (sweep / name / "config.yaml").touch()
        if name.startswith("runs"):
            (sweep / name / "checkpoints" / "step-00000001").mkdir(parents=True)
    (sweep / "sweep.json").touch()
    for path in (sweep, sweep.parent):
        with pytest.raises(RunError) as error:
            RunDirectory(path).load_config()
        runs = f"{sweep}/runs/a=1/seed-1, {sweep}/runs/a=2/seed-1"
        assert str(error.value).endswith(f", but it holds runs: {runs}; name one of them")
    with pytest.raises(RunError, match="it has no config"):
        RunDirectory(sweep / "data").load_config()
