"""SIGINT and SIGTERM at delicate moments: once stops in good order, twice at once."""

import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import PATIENCE, run, signal_at, start
from cli.same import assert_same_run

pytestmark = pytest.mark.posix

# Each moment belongs to step 40, a step that is validated and saved.
MOMENTS = {
    "in a validation": ("transformer_cli.evaluation.scoring", "evaluate", 2),
    "before a record": ("transformer_cli.runs.metrics_log", "append_record", 3),
    "before a checkpoint's weights": ("safetensors.torch", "save_file", 7),
    "before a checkpoint's moments": ("safetensors.torch", "save_file", 8),
    "before old checkpoints are deleted": (
        "transformer_cli.training.session",
        "prune_checkpoints",
        4,
    ),
}
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
EACH = [(moment, *SIGNALS[index % 2]) for index, moment in enumerate(MOMENTS)]
LONG = pytest.mark.long


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [EACH[0], EACH[3], *(pytest.param(*EACH[n], marks=LONG) for n in (1, 2, 4))],
)
def test_once(training: Training, tmp_path: Path, moment: str, number: int, code: int) -> None:
    directory = tmp_path / "run"
    command = ("train", training.config, "--run-dir", directory)
    stopped = run(*command, before=partial(signal_at, *MOMENTS[moment], number))
    assert stopped.code == code
    assert stopped.out == ""
    assert "Traceback" not in stopped.err
    checkpoints = sorted(path.name for path in (directory / "checkpoints").iterdir())
    assert "step-00000040" in checkpoints
    assert not [name for name in checkpoints if ".partial-" in name]
    stopped_at = int(checkpoints[-1].removeprefix("step-"))
    assert stopped_at in (40, 41)
    assert f"stopped at step {stopped_at}; the same command resumes" in stopped.err
    assert_goes_on(command, training)


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [EACH[0], EACH[3], *(pytest.param(*EACH[n], marks=LONG) for n in (1, 2, 4))],
)
def test_twice(training: Training, tmp_path: Path, moment: str, number: int, code: int) -> None:
    directory = tmp_path / "run"
    command = ("train", training.config, "--run-dir", directory)
    stopped = run(*command, before=partial(signal_at, *MOMENTS[moment], number, times=2))
    assert stopped.code == code
    assert "Traceback" not in stopped.err
    names = {path.name for path in (directory / "checkpoints").iterdir()}
    assert ("step-00000040" in names) == (not moment.startswith("before a checkpoint's"))
    assert "step-00000030" in names
    assert_goes_on(command, training)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=LONG), signal.SIGTERM])
def test_in_the_last_checkpoint(training: Training, tmp_path: Path, number: int) -> None:
    directory = tmp_path / "run"
    command = ("train", training.config, "--run-dir", directory)
    # After the last of three validations.
    asked = partial(signal_at, "transformer_cli.training.session", "replace_state", 3, number)
    finished = run(*command, before=asked)
    assert finished.code == 0, "there is nothing left to stop"
    assert "trained 60 steps" in finished.out
    assert_same_run(directory, training.run)


def interrupted_then_terminated() -> None:
    where = ("transformer_cli.training.trainer:Trainer", "_update")
    signal_at(*where, 12, signal.SIGTERM)
    signal_at(*where, 12, signal.SIGINT)


def test_the_second_signal_says_how_it_ended(training: Training, tmp_path: Path) -> None:
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    stopped = run(*command, before=interrupted_then_terminated)
    assert stopped.code == 143
    assert_goes_on(command, training)


@pytest.mark.parametrize(
    "delays",
    [
        pytest.param((0.1, 0.6, 1.1, 1.6), id="4"),
        pytest.param([n / 10 for n in range(60)], id="60", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(("number", "code"), [SIGNALS[0], pytest.param(*SIGNALS[1], marks=LONG)])
def test_while_the_program_starts(
    training: Training, tmp_path: Path, delays: list[float], number: int, code: int
) -> None:
    """Whenever it comes, there is no traceback, and the next start finds nothing in its way."""
    command = ("train", training.config, "--run-dir", tmp_path / "run")
    for delay in delays:
        process = start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        try:
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        if process.returncode == -number or b"init_import_site" in err:
            continue  # the interpreter itself was starting
        assert "Traceback" not in err.decode()
        assert process.returncode in (code, 0)
    assert_goes_on(command, training)


def assert_goes_on(command: tuple[str | Path, ...], training: Training) -> None:
    finished = run(*command)
    assert finished.code == 0, finished.err
    found = Path(command[command.index("--run-dir") + 1])
    assert_same_run(found, training.run, other_checkpoints=True)
