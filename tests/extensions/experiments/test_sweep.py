"""``sweep``: many runs of one experiment, with real trainings."""

import hashlib
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import children
import pytest
from cli import process
from cli.conftest import TINY

from extensions.experiments.forked_commands import do_not_wait, fork_commands
from transformer_cli.runs.directory import lock_directory

GRID = """\
base: tiny.yaml
seeds: {seeds}
grid: {{model.dropout: {dropouts}, training.schedule.peak: [3e-3, 1e-2]}}
evaluate: [test]
"""


@dataclass(frozen=True)
class Grid:
    """A sweep that has not run yet."""

    dropouts: list[float]
    num_seeds: int

    @property
    def text(self) -> str:
        return GRID.format(seeds=self.num_seeds, dropouts=self.dropouts)

    @property
    def points(self) -> list[str]:
        return [f"dropout={each:g},peak={peak}" for each in self.dropouts for peak in (0.003, 0.01)]

    @property
    def seeds(self) -> range:
        return range(1, self.num_seeds + 1)


@dataclass(frozen=True)
class Swept:
    """A sweep that ran undisturbed, and its output; tests must not change it."""

    grid: Grid
    path: Path
    out: str

    def validation_bleus(self) -> dict[str, list[float]]:
        """Best validation BLEU of each run by point, read without our own code."""
        found: dict[str, list[float]] = {}
        for point in self.grid.points:
            found[point] = []
            for seed in self.grid.seeds:
                path = self.path / f"runs/{point}/seed-{seed}/metrics.jsonl"
                records = [json.loads(line) for line in path.read_text().splitlines()]
                found[point].append(max(each["bleu"] for each in records if "bleu" in each))
        return found


SMALL = Grid([0.2], 2)
"""Its processes are forks, one at a time: another takes 5 seconds to begin."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SMALL, id="small"),
        pytest.param(Grid([0.0, 0.2], 3), marks=pytest.mark.long),
    ],
)
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    directory = tmp_path_factory.mktemp("sweep")
    _write(directory, request.param.text)
    jobs, before = ("1", fork_commands) if request.param is SMALL else ("2", None)
    command = ("sweep", "grid.yaml", "--jobs", jobs, "--threads", "1")
    finished = process.run(*command, cwd=directory, before=before)
    assert finished.code == 0, finished.err
    return Swept(request.param, directory / "sweeps/grid", finished.out)


def _write(directory: Path, text: str) -> None:
    (directory / "tiny.yaml").write_text(TINY.replace("epochs: 12", "epochs: 8"))
    (directory / "grid.yaml").write_text(text)


def test_every_point_is_trained_with_every_seed(swept: Swept) -> None:
    runs = [f"{point}/seed-{seed}" for point in swept.grid.points for seed in swept.grid.seeds]
    sums = _sums(swept.path)
    assert sorted(sums) == sorted(runs)
    assert len(set(sums.values())) == len(runs)


def test_the_table_has_mean_and_deviation_over_seeds(swept: Swept) -> None:
    for point, bleus in swept.validation_bleus().items():
        mean, deviation = statistics.fmean(bleus), statistics.stdev(bleus)
        line = next(line for line in swept.out.splitlines() if line.startswith(f"{point} "))
        assert line.split() == [point, str(len(bleus)), f"{mean:.2f}", "±", f"{deviation:.2f}"]


def test_the_test_split_is_scored_as_evaluate_does(swept: Swept) -> None:
    table = swept.out[swept.out.index("test: 20 sentences") :].splitlines()
    for point in swept.grid.points:
        scores = []
        for seed in swept.grid.seeds if swept.grid is SMALL else ():
            run = swept.path / f"runs/{point}/seed-{seed}"
            found = process.run("evaluate", run, "--split", "test", "--json")
            scores.append(json.loads(found.out)["scores"]["bleu"]["value"])
        line = " ".join(next(line for line in table if line.startswith(point)).split())
        if scores:
            mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
            assert f" {mean:.2f} ± {deviation:.2f} " in line


def test_a_run_equals_one_by_train_with_the_same_settings(swept: Swept, tmp_path: Path) -> None:
    _write(tmp_path, swept.grid.text)
    settings = ("model.dropout=0.2", "training.schedule.peak=0.01", "seed=2")
    options = [part for each in settings for part in ("--set", each)]
    finished = process.run("train", "tiny.yaml", *options, "--threads", "1", cwd=tmp_path)
    assert finished.code == 0, finished.err
    run = swept.path / "runs/dropout=0.2,peak=0.01/seed-2"
    assert _sum(run) == _sum(tmp_path / "runs/tiny")


def test_run_again_it_says_the_same_and_trains_nothing(swept: Swept) -> None:
    before = _sums(swept.path)
    again = process.run("sweep", "grid.yaml", cwd=swept.path.parents[1])
    assert again.out == swept.out
    assert not re.search("started|resumed", again.err)
    assert _sums(swept.path) == before


@pytest.mark.long
@pytest.mark.parametrize("kills", [2, 10])
def test_killed_at_random_moments_it_ends_in_the_same_bits(
    swept: Swept, tmp_path: Path, kills: int
) -> None:
    _write(tmp_path, swept.grid.text)
    _kill_and_finish(tmp_path, kills)
    assert _sums(tmp_path / "sweeps/grid") == _sums(swept.path)


def _kill_and_finish(directory: Path, kills: int) -> None:
    command = [sys.executable, "-m", "transformer_cli", "sweep", "grid.yaml"]
    command += ["--jobs", "2", "--threads", "1", "--precision", "float32"]
    generator = random.Random(5)
    for _ in range(kills):
        worker = children.start(
            command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(generator.uniform(2.0, 9.0))
        worker.kill()
        worker.wait()
    finished = process.run("sweep", "grid.yaml", *command[5:], cwd=directory)
    assert finished.code == 0, finished.err


@pytest.mark.long
def test_a_failed_run_is_reported_and_tried_again(tmp_path: Path) -> None:
    grid = "grid: {training.max_length: [1, 64]}\nseeds: 1\n"
    _write(tmp_path, f"base: tiny.yaml\n{grid}")
    finished = process.run("sweep", "grid.yaml", "--jobs", "2", cwd=tmp_path)
    assert finished.code == 1
    message = "every pair is longer than training.max_length (1 tokens); raise it"
    assert f"runs/max_length=1/seed-1: failed: split 'train': {message}" in finished.err
    assert "runs/max_length=64/seed-1: done; 1 of 2 runs" in finished.err
    assert "max_length=1   0, 1 failed" in finished.out
    again = process.run("sweep", "grid.yaml", cwd=tmp_path)
    assert again.code == 1
    assert "runs/max_length=1/seed-1: started" in again.err  # nothing of it was trained
    assert "runs/max_length=64/seed-1:" not in again.err


def test_other_settings_are_refused(swept: Swept, tmp_path: Path) -> None:
    _write(tmp_path, swept.grid.text)
    text = (tmp_path / "tiny.yaml").read_text()
    (tmp_path / "tiny.yaml").write_text(text.replace("epochs: 8", "epochs: 9"))
    refused = process.run("sweep", "grid.yaml", "--sweep-dir", swept.path, cwd=tmp_path)
    assert refused.code == 2
    assert "trained with other settings (training.epochs was 8, now 9)" in refused.err
    dry = process.run("sweep", "grid.yaml", "--sweep-dir", swept.path, "--dry-run", cwd=tmp_path)
    assert (dry.code, dry.err) == (2, refused.err)


def test_trainings_of_a_sweep_have_no_time_limit(tmp_path: Path) -> None:
    _write(tmp_path, SMALL.text)
    with (tmp_path / "tiny.yaml").open("a") as file:
        file.write("  max_minutes: 3\n")
    for dry in ((), ("--dry-run",)):
        refused = process.run("sweep", "grid.yaml", *dry, cwd=tmp_path)
        process.assert_refused(refused, 2, "training.max_minutes: runs would differ in their num")
    assert not (tmp_path / "sweeps").exists()


@pytest.mark.long
def test_points_with_other_test_text_are_not_compared(
    tmp_path: Path,
) -> None:
    lines = (f"das {number} wort\t{number} word the\n" for number in range(100))
    (tmp_path / "text.tsv").write_text("".join(lines))
    (tmp_path / "tiny.yaml").write_text(
        "data: {kind: corpus, src_lang: de, tgt_lang: en, filters: [], split: {val: 9, test: 9}, "
        "sources: [{tsv: text.tsv, src_column: 1, tgt_column: 2}]}\n"
        "tokenizer: {kind: words}\nmodel: {d_model: 8, num_heads: 2, d_ff: 8}\n"
        "training: {max_steps: 2, batch_tokens: 100}\n"
    )
    file = "base: tiny.yaml\ngrid: {data.split.seed: [1, 2]}\nevaluate: [test]\nseeds: "
    (tmp_path / "grid.yaml").write_text(f"{file}1\n")
    finished = process.run("sweep", "grid.yaml", cwd=tmp_path)
    assert finished.code == 0, finished.err
    assert "test: not compared: " in finished.err
    assert "split 'test' is not the same in both" in finished.err
    assert "sentences" not in finished.out
    (tmp_path / "grid.yaml").write_text(f"{file}2\n")
    dry = process.run("sweep", "grid.yaml", "--dry-run", cwd=tmp_path)
    assert dry.out.startswith("2 of 4 runs have finished\n"), dry.err
    assert dry.out.count(" --run-dir sweeps/grid/runs/seed=") == 2


def test_a_dry_run_lists_the_runs_and_writes_nothing(tmp_path: Path) -> None:
    _write(tmp_path, SMALL.text)
    finished = process.run("sweep", "grid.yaml", "--dry-run", cwd=tmp_path)
    assert finished.code == 0, finished.err
    assert finished.out.startswith("0 of 4 runs have finished\n")
    assert finished.out.count("\ntransformer-cli train tiny.yaml --set ") == 4
    assert finished.out.endswith(
        "\ntime and memory of a training: transformer-cli train tiny.yaml --dry-run\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["grid.yaml", "tiny.yaml"]


@pytest.mark.long
@pytest.mark.posix
def test_ctrl_c_stops_it_with_its_code(tmp_path: Path) -> None:
    _write(tmp_path, SMALL.text)
    worker = children.start(
        [sys.executable, "-m", "transformer_cli", "sweep", "grid.yaml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while not list((tmp_path / "sweeps/grid").glob("data/*/config.yaml")):
        assert worker.poll() is None
        time.sleep(0.05)
    worker.send_signal(2)
    out, err = worker.communicate()
    assert worker.returncode == 130
    assert out == b""
    assert b"run it again to resume" in err


def test_runs_that_another_machine_has_trained_count(swept: Swept, tmp_path: Path) -> None:
    _write(tmp_path, swept.grid.text)
    dry = process.run("sweep", "grid.yaml", "--dry-run", "--threads", "1", cwd=tmp_path)
    command = dry.out.splitlines()[1]
    trained = process.run(*shlex.split(command)[1:], cwd=tmp_path)
    assert trained.code == 0, trained.err
    again = process.run("sweep", "grid.yaml", "--dry-run", "--threads", "1", cwd=tmp_path)
    assert again.out == dry.out.replace("0 of", "1 of").replace(f"{command}\n", "")


@pytest.mark.posix
def test_a_second_process_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, SMALL.text)
    (tmp_path / "sweeps/grid").mkdir(parents=True)
    with lock_directory(tmp_path / "sweeps/grid"):
        refused = process.run("sweep", "grid.yaml", cwd=tmp_path, before=do_not_wait)
    process.assert_refused(refused, 1, "sweeps/grid: in use by process")


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, SMALL.text)
    (tmp_path / "sweeps/grid").mkdir(parents=True)
    (tmp_path / "sweeps/grid/thesis.tex").write_text("")
    refused = process.run("sweep", "grid.yaml", cwd=tmp_path)
    assert refused.code == 2
    assert "contains files, but no sweep.json" in refused.err
    refused = process.run("sweep", "grid.yaml", "--sweep-dir", "tiny.yaml", cwd=tmp_path)
    assert refused.code == 2
    assert "tiny.yaml: cannot be created (File exists); choose another directory" in refused.err


def _sums(sweep: Path) -> dict[str, str]:
    """The last checkpoint's weights of each run, by the run's name."""
    return {
        str(run.relative_to(sweep / "runs")): _sum(run) for run in sorted(sweep.glob("runs/*/*"))
    }


def _sum(run: Path) -> str:
    last = sorted((run / "checkpoints").glob("step-*"))[-1]
    names = ("model.safetensors", "optimizer.safetensors")
    content = b"".join((last / name).read_bytes() for name in names)
    return hashlib.sha256(content).hexdigest()
