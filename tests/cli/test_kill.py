"""Whatever stops a training, the same command finishes it, with byte-identical results."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Training
from cli.process import assert_refused, run, signal_at, start
from cli.same import assert_same_run

pytestmark = pytest.mark.posix


def half_a_line(call: int) -> None:
    """Kill the process in the middle of writing the n-th record."""
    from transformer_cli.runs import metrics_log

    append = metrics_log.append_record
    calls = iter(range(1, 1000))

    def cut_short(path: Path, record: Mapping[str, Any]) -> None:
        if next(calls) == call:
            with path.open("a") as file:
                file.write(json.dumps(record)[:40])
            os.kill(os.getpid(), signal.SIGKILL)
        append(path, record)

    metrics_log.append_record = cut_short


def at_rename(names: str, after: bool) -> None:
    """Kill the process before or after a rename, given as a pattern of 'old -> new'."""
    rename = Path.rename

    def cut_short(path: Path, target: Path) -> Path:
        is_it = re.fullmatch(names, f"{path.name} -> {target.name}") is not None
        if is_it and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        renamed = rename(path, target)
        if is_it and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return renamed

    Path.rename = cut_short  # type: ignore[method-assign, assignment]


POINTS: dict[str, Callable[[], None]] = {
    "before the settings are written": partial(
        signal_at, "transformer_cli.runs.initialize", "write_text", 1
    ),
    "while the tokenizer is made": partial(
        signal_at, "transformer_cli.text.tokenizer", "learn_tokenizers", 1
    ),
    "while the text is encoded": partial(
        signal_at, "transformer_cli.data.store", "encode_pairs", 1
    ),
    "before the encoded text gets its name": partial(at_rename, r".* -> encoded", after=False),
    "in the middle of an epoch": partial(
        signal_at, "transformer_cli.training.trainer:Trainer", "_update", 33
    ),
    # two files of tensors each: the weights of the third checkpoint are there, its moments are not
    "in the middle of a checkpoint": partial(signal_at, "safetensors.torch", "save_file", 6),
    "before a checkpoint gets its name": partial(at_rename, r".* -> step-00000040", after=False),
    "in a validation": partial(signal_at, "transformer_cli.evaluation.scoring", "evaluate", 2),
    "before a validation's result is saved": partial(
        signal_at, "transformer_cli.training.session", "replace_state", 2
    ),
    "before old checkpoints are deleted": partial(
        signal_at, "transformer_cli.training.session", "prune_checkpoints", 5
    ),
    "while an old checkpoint is deleted": partial(at_rename, r"step-00000010 -> .*", after=True),
    "in the middle of a record": partial(half_a_line, 3),
}


ONE_OF_EACH_KIND = {
    "before the encoded text gets its name",
    "in the middle of an epoch",
    "in the middle of a checkpoint",
    "in the middle of a record",
}


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each in ONE_OF_EACH_KIND else pytest.mark.long)
        for each in POINTS
    ],
)
def test_a_killed_training_goes_on_as_if_nothing_had_been(
    training: Training, tmp_path: Path, point: str
) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    assert run(*command, before=POINTS[point]).code == -signal.SIGKILL
    assert_same_end(command, training.run)


def test_a_training_killed_while_it_discards_an_old_one(training: Training, own_run: Path) -> None:
    command = ("train", training.config, "--run-dir", own_run)
    kill = partial(signal_at, "pathlib:Path", "unlink", 1)  # tokenizer and checkpoints are gone
    assert run(*command, "--overwrite", before=kill).code == -signal.SIGKILL
    assert_same_end(command, training.run)


def test_a_signal_stops_with_a_checkpoint(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    # Asked during step 22, so that step 23 is the last, which is not due for a checkpoint.
    ask = partial(
        signal_at, "transformer_cli.training.trainer:Trainer", "_update", 22, signal.SIGINT
    )
    stopped = run(*command, before=ask)
    assert stopped.code == 130
    assert stopped.out == ""
    assert "stopping after this step, with a checkpoint" in stopped.err
    assert stopped.err.endswith("stopped at step 23; the same command resumes from there\n")
    assert "Traceback" not in stopped.err
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert newest.name == "step-00000023"
    assert_same_end(command, training.run, other_checkpoints=True)


def interrupted_in_the_background() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal_at("transformer_cli.training.trainer:Trainer", "_update", 23, signal.SIGINT)


@pytest.mark.long
def test_a_training_started_with_sigint_ignored_goes_on_ignoring_it(
    training: Training, tmp_path: Path
) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    finished = run(*command, before=interrupted_in_the_background)
    assert finished.code == 0, finished.err
    assert "stopping" not in finished.err
    assert_same_run(tmp_path / "run", training.run)


def test_a_second_signal_stops_at_once(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    trainer = "transformer_cli.training.trainer:Trainer"
    insist = partial(signal_at, trainer, "_update", 23, signal.SIGINT, times=2)
    assert run(*command, before=insist).code == 130
    assert max((tmp_path / "run" / "checkpoints").iterdir()).name == "step-00000020"
    assert_same_end(command, training.run)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_step_leaves_in_silence(
    training: Training, tmp_path: Path, number: int, code: int
) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    preparation = "transformer_cli.training.preparation"
    stopped = run(*command, before=partial(signal_at, preparation, "encode_pairs", 1, number))
    assert stopped.code == code
    assert stopped.out == ""
    assert stopped.err.strip() == ""


@pytest.mark.long
def test_a_signal_from_outside_stops_a_training_with_a_checkpoint(
    training: Training, tmp_path: Path
) -> None:
    endless = ("--set", "training.epochs=1000000")
    process = start(
        "train",
        training.config,
        "--run-dir",
        "run",
        *endless,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(b"step "):
            break
    second = run("train", training.config, "--run-dir", "run", *endless, cwd=tmp_path)
    assert_refused(second, 1, f"run: in use by process {process.pid} on ")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 143
    assert out == b""
    last_line = err.decode().splitlines()[-1]
    stopped = re.fullmatch(r"stopped at step (\d+); .*", last_line)
    assert stopped
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    assert newest.name == f"step-{int(stopped[1]):08d}"


def assert_same_end(
    command: tuple[str | Path, ...], uninterrupted: Path, other_checkpoints: bool = False
) -> None:
    """Run ``command``; its run must equal the uninterrupted one, except for times."""
    finished = run(*command)
    assert finished.code == 0, finished.err
    found = Path(command[command.index("--run-dir") + 1])
    assert_same_run(found, uninterrupted, other_checkpoints)
