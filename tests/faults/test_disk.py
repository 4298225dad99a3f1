"""No room on the disk, or no leave to write: said in one line, and nothing older is harmed."""

import json
import os
import pkgutil
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, Finished, assert_refused, run, start
from cli.same import assert_same_run
from installed import has_command

from transformer_cli.base.files import sha256

FILLER = "filler"
METRICS = "transformer_cli.runs.metrics_log"
SAFETENSORS, CHECKPOINT = "safetensors.torch", "transformer_cli.runs.checkpoint"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte, of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def before_call(where: str, attribute: str, call: int, happens: Callable[[], None]) -> None:
    """Have something happen right before the n-th call of a function, from 1."""
    owner = pkgutil.resolve_name(where)
    function = getattr(owner, attribute)
    calls = count(1)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            happens()
        return function(*args, **kwargs)

    setattr(owner, attribute, wrapped)


def fill(disk: Path, leave: int) -> None:
    """Fill a disk but for ``leave`` bytes, if there are as many; it may give more by the page."""
    with (disk / FILLER).open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(file.tell() - leave)


def limit_files(size: int) -> None:
    """Let no file grow beyond ``size`` bytes, as ``ulimit -f`` does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@dataclass(frozen=True)
class Moment:
    """When there is no more room: right before the n-th call of a function."""

    where: str
    attribute: str
    call: int
    names: str
    """What the message names, below the run directory."""
    saved: tuple[int, ...] = ()
    """Steps of the checkpoints that there are."""
    leave: int = 0
    """Bytes of room that are left."""


MOMENTS = {
    "the settings": Moment("transformer_cli.runs.initialize", "write_text", 1, "config.yaml"),
    "the tokenizer": Moment("transformer_cli.text.tokenizer", "learn_tokenizers", 1, "tokenizer"),
    "the encoded text": Moment("transformer_cli.data.store", "pack_page", 1, "encoded"),
    "a record": Moment(METRICS, "append_record", 1, "metrics.jsonl"),
    "how a step was judged": Moment(
        CHECKPOINT, "write_record", 5, "checkpoints/step-00000020", (10, 20)
    ),
    "the weights": Moment(SAFETENSORS, "save_file", 5, "checkpoints/step-00000030", (10, 20)),
    "half of the weights": Moment(
        SAFETENSORS,
        "save_file",
        5,
        "checkpoints/step-00000030",
        (10, 20),
        8192,
    ),
    "the moments": Moment(
        SAFETENSORS,
        "save_file",
        6,
        "checkpoints/step-00000030",
        (10, 20),
        8192,
    ),
    "the manifest": Moment(CHECKPOINT, "write_record", 7, "checkpoints/step-00000030", (10, 20)),
}


ONE_OF_EACH_KIND = {"the settings", "the encoded text", "a record", "half of the weights"}


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(each, marks=() if each in ONE_OF_EACH_KIND else pytest.mark.long)
        for each in MOMENTS
    ],
)
def test_a_disk_that_is_full_at(training: Training, small_disk: Path, what: str) -> None:
    moment = MOMENTS[what]
    directory = small_disk / "run"
    command = ("train", training.config, "--run-dir", directory)
    full = partial(fill, small_disk, moment.leave)
    stopped = run(
        *command, before=partial(before_call, moment.where, moment.attribute, moment.call, full)
    )
    assert_ended_by(stopped, f"{directory / moment.names}", "No space left on device")
    assert_older_checkpoints_are_whole(directory, moment)
    (small_disk / FILLER).unlink()
    assert_goes_on(command, training)


@pytest.mark.long
def test_a_disk_that_is_full_when_training_goes_on(training: Training, small_disk: Path) -> None:
    directory = small_disk / "run"
    command = ("train", training.config, "--run-dir", directory)
    kill = partial(
        before_call,
        "transformer_cli.training.trainer:Trainer",
        "_update",
        33,
        partial(os._exit, 9),
    )
    assert run(*command, before=kill).code == 9
    before = {path: path.read_bytes() for path in directory.rglob("step-*/*")}
    assert len(before) == 8  # two checkpoints
    fill(small_disk, 0)
    stopped = run(*command)
    assert_ended_by(stopped, str(directory), "No space left on device")
    assert {path: path.read_bytes() for path in directory.rglob("step-*/*")} == before
    (small_disk / FILLER).unlink()
    assert_goes_on(command, training)


# In bytes; what the program says goes to a file as well.
LIMITS = {
    "the weights": (
        Moment(SAFETENSORS, "save_file", 5, "checkpoints/step-00000030", (10, 20)),
        5000,
    ),
    "the encoded text": (
        Moment("transformer_cli.data.store", "pack_page", 1, "encoded"),
        500,
    ),
    "the tokenizer": (
        Moment("transformer_cli.text.tokenizer", "learn_tokenizers", 1, "tokenizer"),
        200,
    ),
}


@pytest.mark.parametrize(
    "what",
    ["the weights", *(pytest.param(each, marks=pytest.mark.long) for each in list(LIMITS)[1:])],
)
def test_a_limit_of_files_sizes_at(training: Training, tmp_path: Path, what: str) -> None:
    moment, size = LIMITS[what]
    directory = tmp_path / "run"
    command = ("train", training.config, "--run-dir", directory)
    limit = partial(limit_files, size)
    stopped = run(
        *command, before=partial(before_call, moment.where, moment.attribute, moment.call, limit)
    )
    assert_ended_by(stopped, f"{directory / moment.names}", "File too large")
    assert_older_checkpoints_are_whole(directory, moment)
    assert_goes_on(command, training)


@pytest.mark.long
def test_a_log_that_takes_no_more_stops_nothing(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", "run")
    with Path("/dev/full").open("wb") as log:
        process = start(*command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.startswith(b"run: trained 60 steps ")
    assert_same_run(tmp_path / "run", training.run)


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_translations_that_do_not_fit(own_run: Path, small_disk: Path, command: str) -> None:
    output = small_disk / "out.txt"
    output.write_text("older\n")
    fill(small_disk, 0)
    lines = b"s1 s2 s3 s4\n" * 3000
    stopped = run(command, own_run, "-o", output, stdin=lines)
    assert_ended_by(stopped, str(output), "No space left on device")
    assert output.read_text() == "older\n"
    assert sorted(path.name for path in small_disk.iterdir()) == [FILLER, output.name]
    (small_disk / FILLER).unlink()
    assert run(command, own_run, "-o", output, stdin=lines).code == 0
    assert output.read_text().count("\n") == (3000 if command == "translate" else 20)


@pytest.mark.skipif(not has_command("average"), reason="average is not installed")
def test_an_average_that_does_not_fit(training: Training, small_disk: Path) -> None:
    directory = shutil.copytree(training.run, small_disk / "run")
    assert run("average", directory, "--last", "2").code == 0
    weights = (directory / "checkpoints" / "average" / "model.safetensors").read_bytes()
    fill(small_disk, 4096)
    stopped = run("average", directory, "--last", "1")
    assert_ended_by(stopped, str(directory / "checkpoints" / "average"), "No space left on device")
    average = directory / "checkpoints" / "average" / "model.safetensors"
    assert average.read_bytes() == weights
    (small_disk / FILLER).unlink()
    assert run("average", directory, "--last", "1").code == 0
    assert not list(directory.rglob("*.partial-*"))


# --- a run directory that cannot be written -------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "vocab"])
@pytest.mark.parametrize("below", ["", "run", "deeper/run"])
def test_a_read_only_disk(training: Training, small_disk: Path, command: str, below: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    directory = small_disk / below
    refused = run(command, training.config, "--run-dir", directory)
    assert_refused(refused, 1, f"{directory}: cannot be written: Read-only file system")


def test_a_run_on_a_disk_that_has_become_read_only(training: Training, small_disk: Path) -> None:
    directory = shutil.copytree(training.run, small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    longer = ("--set", "training.epochs=13")
    refused = run("train", training.config, "--run-dir", directory, *longer)
    assert_refused(refused, 1, f"{directory}: cannot be written: Read-only file system")


@pytest.mark.long_cases
@pytest.mark.parametrize("name", ["checkpoints", "tokenizer", ".lock", "metrics.jsonl"])
def test_something_else_in_the_place_of_a_part_of_the_run(
    config: Path, tmp_path: Path, name: str
) -> None:
    directory = tmp_path / "run"
    assert run("vocab", config, "--run-dir", directory).code == 0
    place = directory / name
    is_file = name in (".lock", "metrics.jsonl")
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    if is_file:
        place.mkdir()
    else:
        place.write_text("text")
    refused = run("train", config, "--run-dir", directory)
    assert "Traceback" not in refused.err
    assert refused.code == 1
    assert "\nstep " not in refused.err
    assert refused.err.splitlines()[-1].startswith(f"transformer-cli: error: {directory}")
    assert place.is_dir() if is_file else place.read_text() == "text"


@pytest.mark.parametrize("place", ["/proc/run", "/proc/self/run", "/dev/null/run", "/dev/null"])
def test_a_place_that_takes_no_directory(config: Path, place: str) -> None:
    refused = run("train", config, "--run-dir", place)
    assert_refused(refused, 1, f"{place}: cannot be written: ")


# --- what all expect ------------------------------------------------------------------------------


def assert_ended_by(stopped: Finished, *fragments: str) -> None:
    assert "Traceback" not in stopped.err
    last = stopped.err.splitlines()[-1]
    assert last.startswith("transformer-cli: error: ")
    assert ".partial-" not in last
    for fragment in fragments:
        assert fragment in last
    assert stopped.code == 1


def assert_older_checkpoints_are_whole(directory: Path, moment: Moment) -> None:
    """Each file as its manifest says; nothing is left of a checkpoint that failed."""
    checkpoints = sorted((directory / "checkpoints").glob("*"))
    assert [path.name for path in checkpoints] == [f"step-{step:08d}" for step in moment.saved]
    for path in checkpoints:
        files = json.loads((path / "manifest.json").read_text())["content"]["files"]
        assert {name: sha256(path / name) for name in files} == files


def assert_goes_on(command: tuple[str | Path, ...], training: Training) -> None:
    finished = run(*command)
    assert finished.code == 0, finished.err
    found = Path(command[command.index("--run-dir") + 1])
    assert_same_run(found, training.run)
