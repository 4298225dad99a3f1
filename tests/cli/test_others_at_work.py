"""Commands that write files while others save, read or write the same files: nothing is lost."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from cli.conftest import Training
from cli.process import Finished, assert_refused, run

Case = tuple[str, list[str]]
COMMANDS: dict[str, Case] = {
    "lines": ("out.txt", ["translate", "RUN", "-i", "in.txt", "-o", "out.txt"]),
    "lines of a pipe": ("out.txt", ["translate", "RUN", "-o", "out.txt"]),
    "evaluate": ("out.txt", ["evaluate", "RUN", "-o", "out.txt"]),
}
"""Commands, each with the file that it writes."""
INTO_RUNS = [
    ("translate", "RUN", "-i", "in.txt", "-o", "RUN/config.yaml"),
    ("translate", "RUN", "-i", "in.txt", "-o", "RUN/new.txt"),
    ("evaluate", "RUN", "-o", "RUN/config.yaml"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the cases of a module; modules of extensions import these tests and have their own."""
    if "command" in metafunc.fixturenames:
        metafunc.parametrize("command", metafunc.module.INTO_RUNS, ids=" ".join)
    if "case" in metafunc.fixturenames:
        commands = metafunc.module.COMMANDS
        first = next(iter(commands))
        cases = [
            pytest.param(c, id=n, marks=[pytest.mark.long] * (n != first))
            for n, c in commands.items()
        ]
        metafunc.parametrize("case", cases)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("1 2\n3\n")
    return tmp_path


def start(training: Training, here: Path, case: Case, before: object = None) -> Finished:
    command = [str(training.run) if part == "RUN" else part for part in case[1]]
    return run(*command, cwd=here, stdin=b"1 2\n", before=before)  # type: ignore[arg-type]


def saving(path: Path, text: str) -> None:
    """Save a file like another person, as soon as the command flushes something to disk."""
    fsync = os.fsync

    def save(descriptor: int) -> None:
        path.write_text(text)
        fsync(descriptor)

    vars(os)["fsync"] = save


@pytest.mark.parametrize("is_there", [True, False])
def test_what_someone_saves_meanwhile_is_kept(
    training: Training, here: Path, case: Case, is_there: bool
) -> None:
    path = here / case[0]
    older = path.read_text() if path.exists() else "older\n"
    if older != "older\n" and not is_there:
        pytest.skip("there is nothing to fill")
    if is_there:
        path.write_text(older)
    saved = f"{path.read_text()}# saved\n" if is_there else "saved\n"
    finished = start(training, here, case, partial(saving, path, saved))
    assert finished.code == 1
    new = path.with_name(f"{path.name}.new")
    assert finished.err.splitlines()[-1].endswith(
        f"{path}: was changed by someone else while this command ran, so it stays unchanged; the "
        f"output is in {new}"
    )
    assert path.read_text() == saved
    assert new.read_bytes() not in (b"", saved.encode())
    assert not list(here.glob("*.partial*"))
    # Nor is what was kept the first time lost by a second.
    path.write_text(older)
    shutil.rmtree(here / "cleaned", ignore_errors=True)
    assert start(training, here, case, partial(saving, path, saved)).code == 1
    assert path.with_name(f"{path.name}.new-2").read_bytes() == new.read_bytes()


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_what_is_replaced_keeps_its_owner_group_and_mode(
    training: Training, here: Path, case: Case
) -> None:
    path = here / case[0]
    path.touch()
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    before = path.stat()
    assert start(training, here, case).code == 0
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_uid, after.st_gid, after.st_mode) == (1234, 2345, before.st_mode)


@pytest.mark.usefixtures("own_run")
@pytest.mark.long_cases
def test_nothing_is_written_into_a_run_or_a_model(here: Path, command: tuple[str, ...]) -> None:
    before = contents(here)
    given = [part.replace("RUN", "run") for part in command]
    assert_refused(run(*given, cwd=here), 2, ": is in the run or model ", "; write elsewhere")
    assert contents(here) == before


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
