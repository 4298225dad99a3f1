"""Links, pipes and devices in a sweep's or a distillation's directory."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import TINY, Training
from cli.process import assert_refused, run
from faults.test_foreign_directory import (
    Replaced,
    assert_in_good_order,
    assert_looked_at,
    contents,
    files_below,
    limit,
    replace_by_links,
)

from transformer_cli.base.artifact import Record, write_record
from transformer_cli.extensions.experiments.distill import DistillDirectory
from transformer_cli.extensions.experiments.sweep import SweepDirectory

pytestmark = pytest.mark.posix


GRID = "base: tiny.yaml\nseeds: 1\ngrid: {training.schedule.peak: [1e-2]}\nevaluate: [test]\n"


DISTILLATION = "teachers: [tiny.yaml]\nstudent: tiny.yaml\n"


@pytest.fixture
def swept(training: Training, tmp_path: Path) -> Path:
    """A sweep's directory with an example of everything that it may contain."""
    sweep = SweepDirectory(tmp_path / "sweep")
    sweep.create("auto", points=["peak=0.01"], seeds=[1], reference="peak=0.01")
    for name in ("runs/peak=0.01/seed-1", "runs/peak=0.01/seed-2"):
        shutil.copytree(training.run, sweep.path / name)
    shutil.copytree(training.run / "tokenizer", sweep.path / "data" / "0123" / "tokenizer")
    record = sweep.file("data/0123", ".json")
    record.parent.mkdir(parents=True)
    write_record(record, Record(made_of={}))
    (sweep.path / "jobs/runs/peak=0.01").mkdir(parents=True)
    (sweep.path / "jobs/runs/peak=0.01/seed-1.log").write_text("")
    return sweep.path


@pytest.fixture
def distilled(training: Training, tmp_path: Path) -> Path:
    """A distillation's directory with an example of everything that it may contain."""
    directory = DistillDirectory(tmp_path / "distilled")
    directory.create("auto")
    shutil.copytree(training.run, directory.student.path)
    for name in ("student.yaml", "text/train.src", "forward/train.tgt", "scores/student.json"):
        (directory.path / name).parent.mkdir(exist_ok=True)
        (directory.path / name).write_text("")
    for name in (".lock", "forward/train.tgt.partial.json", "back/1-mono.src"):
        (directory.path / name).parent.mkdir(exist_ok=True)
        (directory.path / name).touch()
    return directory.path


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", ["link", "pipe", "zero"])
def test_directories_for_output_contain_only_files(swept: Path, distilled: Path, kind: str) -> None:
    """Each file and subdirectory is checked before anything is written."""
    checks: dict[Path, tuple[Callable[[], object], str]] = {
        swept: (partial(SweepDirectory(swept).check, "auto"), "sweep.json"),
        distilled: (partial(DistillDirectory(distilled).check, "auto"), "distill.json"),
    }
    for directory, (check, mark) in checks.items():
        assert_looked_at(directory, check, mark, kind)


@pytest.mark.long_cases
@pytest.mark.parametrize("whole", [False, True], ids=["files", "directories"])
def test_commands_write_nothing_through_links(
    own_run: Path, swept: Path, distilled: Path, tmp_path: Path, whole: bool
) -> None:
    for name, text in {"tiny": TINY, "grid": GRID, "file": DISTILLATION}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (own_run / "report.html").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    for directory in (own_run, swept, distilled):
        replace_by_links(directory, outside, whole)
    before = contents(outside)
    for arguments in (
        ("report", "run"),
        ("sweep", "grid.yaml", "--sweep-dir", "sweep"),
        ("distill", "file.yaml", "--dir", "distilled"),
    ):
        assert_refused(run(*arguments, cwd=tmp_path, before=limit), 1, ": is a link, ")
    assert contents(outside) == before


@pytest.mark.long
def test_a_comparison_of_a_sweep_waits_for_no_pipe_and_reads_no_device(swept: Path) -> None:
    others = ("runs", "data")  # as of a run
    files = [path for path in files_below(swept) if path.relative_to(swept).parts[0] not in others]
    metrics = swept / "runs" / "peak=0.01" / "seed-1" / "metrics.jsonl"
    for number, path in enumerate([*files, metrics]):
        with Replaced(path, ("pipe", "zero")[number % 2]):
            found = run("compare", swept, before=limit)
        assert_in_good_order(found, swept)
