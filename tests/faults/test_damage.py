"""Damaged checkpoints are never taken for whole ones: training goes back, the others refuse."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run

FILES = ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]


def truncate(share: float, path: Path) -> None:
    data = path.read_bytes()
    # The end of a JSON file is a line end that means nothing.
    path.write_bytes(data[: min(int(share * len(data)), len(data) - 2)])


def flip_a_bit(place: float, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1 << 3
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "half": partial(truncate, 0.5),
    "a bit": partial(flip_a_bit, 0.75),
    "missing": Path.unlink,
}
MORE_DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": partial(truncate, 0.0),
    "1 %": partial(truncate, 0.01),
    "99.9 %": partial(truncate, 0.999),
    "the first bit": partial(flip_a_bit, 0.0),
    "a bit in the middle": partial(flip_a_bit, 0.5),
    "the last bit": partial(flip_a_bit, 0.995),
}
ALL = [pytest.param(each, id=name) for name, each in DAMAGES.items()] + [
    pytest.param(each, id=name, marks=pytest.mark.long) for name, each in MORE_DAMAGES.items()
]


@pytest.mark.long_cases
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ALL)
def test_training_goes_back_to_the_newest_whole_checkpoint(
    training: Training, own_run: Path, name: str, damage: Callable[[Path], None]
) -> None:
    last = own_run / "checkpoints" / "step-00000060"
    expected = {file: (last / file).read_bytes() for file in FILES[:2]}
    damage(last / name)
    finished = run("train", training.config, "--run-dir", own_run)
    assert finished.code == 0, finished.err
    assert f"{last / name}: " in finished.err
    assert "set aside as damaged-step-00000060" in finished.err
    assert "resuming from step 50\n" in finished.err
    for file, data in expected.items():
        assert (last / file).read_bytes() == data


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ALL)
@pytest.mark.parametrize("command", [pytest.param("evaluate", marks=pytest.mark.long), "translate"])
def test_what_reads_a_damaged_file_names_it(
    own_run: Path, name: str, damage: Callable[[Path], None], command: str
) -> None:
    last = own_run / "checkpoints" / "step-00000060"
    damage(last / name)
    finished = run(command, own_run, "--checkpoint", "last", stdin=b"1 2\n")
    if name in ("optimizer.safetensors", "state.json"):
        assert finished.code == 0  # neither reads what is for training
    else:
        assert_refused(finished, 1, f"{last / name}: ")


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_the_best_is_not_looked_up_in_a_damaged_state(own_run: Path, command: str) -> None:
    state = own_run / "checkpoints" / "step-00000060" / "state.json"
    flip_a_bit(0.5, state)
    assert_refused(run(command, own_run, stdin=b"1 2\n"), 1, f"{state}: damaged")


def test_two_damaged_ones_are_passed_over(training: Training, own_run: Path) -> None:
    checkpoints = own_run / "checkpoints"
    # A run that kept more: the third one is whole.
    shutil.copytree(training.run, own_run, dirs_exist_ok=True)
    kept = sorted(checkpoints.glob("step-*"))
    for path in kept[1:]:
        flip_a_bit(0.5, path / "manifest.json")
    finished = run("train", training.config, "--run-dir", own_run)
    assert finished.code == 0, finished.err
    assert finished.err.count("set aside as damaged-") == len(kept) - 1
    assert f"resuming from step {int(kept[0].name[5:])}\n" in finished.err


def test_where_all_are_damaged_nothing_is_touched(training: Training, own_run: Path) -> None:
    for path in (own_run / "checkpoints").iterdir():
        truncate(0.5, path / "model.safetensors")
    before = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    finished = run("train", training.config, "--run-dir", own_run)
    assert finished.code == 1
    assert "all checkpoints are damaged" in finished.err.splitlines()[-1]
    after = {path: path.read_bytes() for path in own_run.rglob("*") if path.is_file()}
    before.pop(own_run / ".lock")
    after.pop(own_run / ".lock")
    assert after == before
