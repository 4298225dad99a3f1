"""Event files that cannot be written, and records that are not ours."""

import json
from pathlib import Path

import pytest

from transformer_cli.base.errors import RunError
from transformer_cli.extensions.observers.events import TensorBoardObserver
from transformer_cli.runs.directory import RunDirectory

RECORD = {"kind": "train", "step": 50, "epoch": 1, "loss": 2.5, "seconds": 4.0}


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(RECORD) + "\n")
    return path


def begin(run: Path, start_time: float = 1000.0) -> TensorBoardObserver:
    observer = TensorBoardObserver()
    observer.on_begin(RunDirectory(run), 0, start_time)
    return observer


def points(directory: Path) -> list[tuple[int, float, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory)).Reload()
    return [(each.step, each.value, each.wall_time) for each in events.Scalars("train/loss")]


def test_points_are_where_they_would_be_without_pauses(metrics: Path, tmp_path: Path) -> None:
    observer = begin(tmp_path)
    observer.on_record({**RECORD, "step": 100, "loss": 1.5, "seconds": 7.5})
    expected = [(50, 2.5, 1004.0), (100, 1.5, 1007.5)]
    assert points(tmp_path / "tensorboard") == expected


@pytest.mark.posix
def test_a_full_disk_is_one_line(
    metrics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = begin(tmp_path)
    observer.path = Path("/dev/full")
    # It would be refused, like every device.
    monkeypatch.setattr("transformer_cli.runs.metrics_log.open_regular", Path.open)
    with pytest.raises(RunError, match=r"^/dev/full: cannot be written: No space left on device; "):
        observer.on_record(RECORD)


def test_others_files_are_kept(metrics: Path, tmp_path: Path) -> None:
    directory = tmp_path / "tensorboard"
    directory.mkdir()
    (directory / "notes.txt").write_text("mine")
    (directory / "events.out.tfevents.0000000007").write_text("older")
    (directory / "events.out.tfevents.1.mine").write_text("mine")
    observer = begin(tmp_path)
    names = {path.name for path in directory.iterdir()}
    assert names == {"notes.txt", "events.out.tfevents.1.mine", observer.path.name}


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "train", "step": 50}',
        '{"kind": "train", "step": 1.5, "seconds": 1.0, "loss": 1.0}',
        '{"kind": "train", "step": 50, "seconds": "long", "loss": 1.0}',
        '{"kind": "train", "step": 50, "seconds": 1.0, "loss": [1.0]}',
        f'{{"kind": "train", "step": {10**30}, "seconds": 1.0, "loss": 1.0}}',
        f'{{"kind": "train", "step": 50, "seconds": 1.0, "loss": {10**400}}}',
        '{"kind": "\\ud800", "step": 50, "seconds": 1.0, "loss": 1.0}',
        "[]",
    ],
)
def test_records_that_are_none_are_left_out(metrics: Path, tmp_path: Path, line: str) -> None:
    metrics.write_text(f"{line}\n{json.dumps(RECORD)}\n")
    begin(tmp_path)
    assert points(tmp_path / "tensorboard") == [(50, 2.5, 1004.0)]


@pytest.mark.long
def test_a_running_tensorboard_keeps_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "in use", str(path))

    begin(tmp_path, 1000.0)
    monkeypatch.setattr(Path, "unlink", refuse)
    begin(tmp_path, 2000.0)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
