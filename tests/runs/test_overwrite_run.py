"""A run that is started anew: the earlier one stays until the new one has a checkpoint."""

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.config.schema import Config
from transformer_cli.errors import RunError, TokenizerError
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.runs.initialize import initialize_run
from transformer_cli.runs.lock import lock_run, restore_previous
from transformer_cli.runs.overwrite import (
    discard_previous,
    finish_on_exit,
    finish_overwriting,
    is_overwriting,
    undo_beginning,
)


class KilledError(BaseException):
    """Stands for the end of the process."""


def settings(**sections: Any) -> Config:
    required = {"data": {"kind": "copy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


def write(run: RunDirectory, step: int | None, text: str) -> None:
    """What a training makes, up to its first checkpoint."""
    names = ["tokenizer/tokenizer.json", "encoded/store.json", "metrics.jsonl", "report.html"]
    if step is not None:
        names.append(f"checkpoints/step-{step:08d}/state.json")
    for name in names:
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(text)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    initialize_run(run, settings())
    write(run, 7, "old")
    (run.path / "notes.txt").write_text("mine")
    return run


def contents(run: RunDirectory) -> dict[str, str]:
    files = (path for path in run.path.rglob("*") if path.is_file() and path != run.lock)
    return {str(path.relative_to(run.path)): path.read_text() for path in files}


def test_without_a_checkpoint_the_earlier_run_comes_back(run: RunDirectory) -> None:
    before = contents(run)
    initialize_run(run, settings(seed=2), overwrite=True)
    write(run, None, "new")
    assert is_overwriting(run.path)
    assert finish_overwriting(run.path)
    assert contents(run) == before
    assert not finish_overwriting(run.path)


def test_with_one_the_new_run_stands(run: RunDirectory) -> None:
    initialize_run(run, settings(seed=2), overwrite=True)
    write(run, 3, "new")
    assert not is_overwriting(run.path)
    expected = {name: text for name, text in contents(run).items() if "previous" not in name}
    assert not finish_overwriting(run.path)
    assert contents(run) == expected
    assert not (run.path / "previous").exists()


def each_kill(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], again: Callable[[], None]
) -> int:
    """Act, killed before each change of the file system in turn; tell how many there are."""
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


def test_killed_at_any_change_the_earlier_run_comes_back(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(run)

    def replace() -> None:
        initialize_run(run, settings(seed=2), overwrite=True)
        write(run, None, "new")
        finish_overwriting(run.path)

    def look() -> None:
        restore_previous(run)  # as whatever opens the run does
        left = (".partial-", ".set-aside")  # until something is written
        found = {
            name: text
            for name, text in contents(run).items()
            if not any(each in name for each in left)
        }
        assert found == before
        with lock_run(run):
            initialize_run(run, settings())
        assert contents(run) == before
        assert not list(run.path.glob("previous*"))

    assert each_kill(monkeypatch, replace, look) > 20


def test_killed_while_it_goes_the_earlier_run_is_gone(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace() -> None:
        initialize_run(run, settings(seed=2), overwrite=True)
        write(run, 3, "new")

    replace()
    expected = {name: text for name, text in contents(run).items() if "previous" not in name}

    def look() -> None:
        with lock_run(run):
            initialize_run(run, settings(seed=2))
        assert contents(run) == expected
        finish_overwriting(run.path)
        replace()

    assert each_kill(monkeypatch, lambda: discard_previous(run.path), look) > 5


def test_a_replacement_that_goes_on_is_not_interfered_with(run: RunDirectory) -> None:
    with lock_run(run):
        initialize_run(run, settings(seed=2), overwrite=True)
        assert not restore_previous(run)
        assert run.load_config() == settings(seed=2)
        assert is_overwriting(run.path)
    assert run.load_config() == settings()


@pytest.mark.parametrize("name", ["previous/notes.txt", "previous/checkpoints/notes.txt"])
def test_what_somebody_puts_beside_the_earlier_run_is_kept(run: RunDirectory, name: str) -> None:
    initialize_run(run, settings(seed=2), overwrite=True)
    (run.path / name).write_text("mine, too")
    write(run, 3, "new")
    discard_previous(run.path)
    assert not finish_overwriting(run.path)
    assert (run.path / name).read_text() == "mine, too"
    assert (run.path / "notes.txt").read_text() == "mine"
    with pytest.raises(RunError, match=f"^{run.path / name}: .* in the way; move it elsewhere$"):
        initialize_run(run, settings(seed=3), overwrite=True)
    (run.path / name).unlink()
    finish_overwriting(run.path)
    assert not (run.path / "previous").exists()


def test_notes_beside_a_run_that_comes_back_are_no_hindrance(run: RunDirectory) -> None:
    before = contents(run)
    initialize_run(run, settings(seed=2), overwrite=True)
    (run.path / "previous" / "notes.txt").write_text("other notes")
    assert finish_overwriting(run.path)
    found = contents(run)
    assert found.pop("previous-moving/notes.txt") == "other notes"
    assert found == before
    assert not is_overwriting(run.path)


def test_a_users_own_previous_is_left_alone(run: RunDirectory) -> None:
    backup = run.path / "previous"
    (backup / "checkpoints").mkdir(parents=True)
    (backup / "config.yaml").write_text("mine")
    before = contents(run)
    assert not is_overwriting(run.path)
    assert not finish_overwriting(run.path)
    discard_previous(run.path)
    assert contents(run) == before
    with pytest.raises(RunError, match=r"previous/.*: was not written by transformer-cli"):
        initialize_run(run, settings(seed=2), overwrite=True)
    assert contents(run) == before


def test_a_file_called_previous_is_in_the_way(run: RunDirectory) -> None:
    (run.path / "previous").write_text("mine")
    before = contents(run)
    with pytest.raises(RunError, match="previous: was not written by transformer-cli"):
        initialize_run(run, settings(seed=2), overwrite=True)
    assert contents(run) == before


def fail_to_begin(run: RunDirectory, meanwhile: Callable[[], object], seed: int = 1) -> None:
    existed = run.path.is_dir()
    with (
        suppress(TokenizerError),
        lock_run(run),
        finish_on_exit(run.path, lambda _: None),
        undo_beginning(run.path, existed),
    ):
        initialize_run(run, settings(seed=seed), overwrite=existed)
        write(run, None, "new")
        meanwhile()
        raise TokenizerError("too large a vocab_size")


def test_nothing_is_left_of_a_run_that_fails_at_its_beginning(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    fail_to_begin(run, lambda: None)
    assert not run.path.exists()


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "tokenizer/notes.txt", "checkpoints/notes.txt", "previous/notes.txt", "mine/x"],
)
def test_with_a_users_file_in_it_a_failed_run_stays_whole(tmp_path: Path, name: str) -> None:
    run = RunDirectory(tmp_path / "run")

    def put() -> None:
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text("mine")

    fail_to_begin(run, put)
    assert contents(run)[name] == "mine"
    assert {"run.json", "config.yaml", "tokenizer/tokenizer.json"} <= contents(run).keys()
    with lock_run(run):  # and can be begun again
        initialize_run(run, settings())


def test_a_failed_run_follows_no_link(tmp_path: Path) -> None:
    run, elsewhere = RunDirectory(tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tokenizer.json").write_text("mine")

    def put() -> None:
        for path in (run.corpus, run.path / "previous"):
            path.symlink_to(elsewhere)

    fail_to_begin(run, put)
    assert (elsewhere / "tokenizer.json").read_text() == "mine"


def test_an_earlier_run_stays_when_a_new_one_fails_at_its_beginning(run: RunDirectory) -> None:
    before = contents(run)
    fail_to_begin(run, lambda: None, seed=2)
    assert contents(run) == before
