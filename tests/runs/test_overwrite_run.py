"""A run that is started again: the earlier one is renamed whole, and is never moved back."""

import os
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from datetime import date
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import RunError, TokenizerError
from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory, lock_run
from transformer_cli.runs.initialize import begin_run, initialize_run, record_settings, rename_run


class KilledError(BaseException):
    """A stand-in for the end of the process."""


def settings(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


def write(run: RunDirectory, step: int | None, text: str) -> None:
    """Write the files of a training up to its first checkpoint."""
    names = ["tokenizer/tokenizer.json", "encoded/store.json", "metrics.jsonl", "report.html"]
    if step is not None:
        names.append(f"checkpoints/step-{step:08d}/state.json")
    for name in names:
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(text)


def begin(run: RunDirectory, seed: int = 2, overwrite: bool = True) -> list[str]:
    """Begin a run, and return its messages."""
    with (
        redirect_stderr(StringIO()) as said,
        begin_run(run, settings(seed=seed), overwrite),
    ):
        assert run.load_config() == settings(seed=seed)
    return said.getvalue().splitlines()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    initialize_run(run, settings())
    write(run, 7, "old")
    (run.path / "notes.txt").write_text("mine")
    return run


def renamed(run: RunDirectory, suffix: str = "") -> RunDirectory:
    return RunDirectory(run.path.with_name(f"run.{date.today()}{suffix}"))


def contents(run: RunDirectory) -> dict[str, str]:
    files = (path for path in run.path.rglob("*") if path.is_file() and path != run.lock)
    return {str(path.relative_to(run.path)): path.read_text() for path in files}


def test_the_earlier_run_goes_with_all_its_files(run: RunDirectory) -> None:
    before = contents(run)
    assert begin(run) == [f"{run.path}: the earlier run is now {renamed(run).path}"]
    assert contents(renamed(run)) == before
    assert contents(run).keys() == {"run.json", "config.yaml"}


def test_each_one_gets_a_name_that_is_free(run: RunDirectory) -> None:
    for number, suffix in enumerate(("", "-2", "-3")):
        write(run, number, f"run {number}")
        begin(run, seed=number)
        assert contents(renamed(run, suffix))["metrics.jsonl"] == f"run {number}"


def test_what_has_no_checkpoint_is_made_anew_in_place(run: RunDirectory) -> None:
    begin(run)
    write(run, None, "half a run")
    (run.path / "notes.txt").write_text("mine")
    assert begin(run, seed=3) == []
    assert contents(run).keys() == {
        *("run.json", "config.yaml", "metrics.jsonl", "report.html", "notes.txt")
    }
    (run.path / "tokenizer").mkdir()
    (run.path / "tokenizer/notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"tokenizer/notes.txt: was not written by transformer-cli"):
        begin(run, seed=4)


def each_kill(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], again: Callable[[], None]
) -> int:
    """Act once for each change of the file system, killed before it; return their number."""
    for kill in count(1):
        calls = count(1)

        def dying(function: Any, calls: count = calls, kill: int = kill) -> Any:  # type: ignore[type-arg]
            def called(*args: Any, **kwargs: Any) -> Any:
                if next(calls) == kill:
                    raise KilledError
                return function(*args, **kwargs)

            return called

        with monkeypatch.context() as patches:
            for name in ("rename", "replace", "unlink", "mkdir", "rmdir"):
                patches.setattr(Path, name, dying(getattr(Path, name)))
            for name in ("unlink", "rmdir"):
                patches.setattr(os, name, dying(getattr(os, name)))
            try:
                act()
            except KilledError:
                pass
            else:
                return kill
        again()
    raise AssertionError


def test_killed_at_any_change_the_earlier_run_is_whole_and_another_can_begin(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(run)

    def look() -> None:
        if renamed(run).path.exists():
            assert contents(renamed(run)) == before
            begin(run, seed=3, overwrite=False)
            begin(run, seed=4)
            assert contents(run).keys() == {"run.json", "config.yaml"}
            for path in sorted(run.path.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            run.path.rmdir()
            renamed(run).path.rename(run.path)
        found = {name: text for name, text in contents(run).items() if ".partial-" not in name}
        assert found == before

    assert each_kill(monkeypatch, lambda: begin(run), look) > 5


def test_of_a_link_what_it_leads_to_is_renamed(run: RunDirectory, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(run.path)
    before = contents(run)
    begin(RunDirectory(link))
    assert link.is_symlink()
    assert contents(renamed(run)) == before
    assert contents(run).keys() == {"run.json", "config.yaml"}


@pytest.mark.parametrize(("inside", "named"), [(".", "."), ("checkpoints", ".."), (".", None)])
def test_the_working_directory_is_not_renamed(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, inside: str, named: str | None
) -> None:
    monkeypatch.chdir(run.path / inside)
    with pytest.raises(RunError, match="is the working directory or contains it"):
        rename_run(run if named is None else RunDirectory(Path(named)))
    assert not renamed(run).path.exists()


def test_what_is_being_written_is_not_renamed(run: RunDirectory) -> None:
    with lock_run(run), pytest.raises(RunError):
        rename_run(run)
    assert not renamed(run).path.exists()


def test_what_cannot_be_renamed_is_named(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> Path:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(
        RunError, match=r"run: cannot be renamed to .*run\.\d.*: Device or resource"
    ):
        begin(run)


@pytest.mark.parametrize("is_finished", [False, True])
def test_settings_are_recorded_once_a_training_begins(run: RunDirectory, is_finished: bool) -> None:
    before = contents(run)
    changed = settings(
        decoding={"beam_size": 4}, training={**settings().training.model_dump(), "epochs": 99}
    )
    with begin_run(run, changed, False):
        assert contents(run) == before
        record_settings(run, changed, is_finished)
    recorded = run.load_config()
    assert recorded.decoding == changed.decoding
    # Of a training that has ended, the record keeps what it was trained with.
    trained = settings() if is_finished else changed
    assert recorded.training == trained.training


def test_a_run_that_could_not_begin_can_begin_again(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with suppress(TokenizerError), begin_run(run, settings(), False):
        raise TokenizerError("too large a vocab_size")
    begin(run, seed=3, overwrite=False)
    assert run.load_config() == settings(seed=3)
