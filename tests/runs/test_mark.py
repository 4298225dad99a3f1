"""Which directories are runs, and which are the user's."""

import json
from pathlib import Path
from typing import Any

import pytest

from transformer_cli import __version__
from transformer_cli.base.errors import ConfigError, RunError, UsageError
from transformer_cli.config.schema import Config
from transformer_cli.config.yaml import dump_config
from transformer_cli.runs import directory
from transformer_cli.runs.directory import (
    RunDirectory,
    check_config_files,
    check_outside_runs,
    write_mark,
)
from transformer_cli.runs.initialize import initialize_run

MINE = "# mine\ndata: {kind: toy}\ntokenizer: {kind: words}\n"


def settings(**sections: Any) -> Config:
    required = {"data": {"kind": "toy"}, "tokenizer": {"kind": "words"}}
    return Config.model_validate({**required, **sections})


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_new_run_is_marked(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    initialize_run(run, settings())
    mark = json.loads((tmp_path / "run.json").read_text())
    assert mark == {"format": 1, "program": "transformer-cli", "version": __version__}


FOREIGN: dict[str, dict[str, str]] = {
    "a configuration": {"config.yaml": MINE},
    "one with every setting": {"config.yaml": dump_config(settings())},
    "a configuration and checkpoints": {
        "config.yaml": MINE,
        "checkpoints/step-00000001/model.pt": "theirs",
        "tokenizer/tokenizer.json": '{"model": {}}',
        "metrics.jsonl": "{}\n",
    },
    "other programs' manifests": {
        "config.yaml": dump_config(settings()),
        "checkpoints/one/manifest.json": '{"files": {}}',
        "run.txt": "[]",
    },
    "no configuration": {"checkpoints/a": "mine"},
    "something hidden": {".git/HEAD": "ref"},
}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_not_a_run_is_left_alone(tmp_path: Path, what: str, overwrite: bool) -> None:
    for name, text in FOREIGN[what].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"holds files but no run \([^\n]*`run_dir`$"):
        initialize_run(RunDirectory(tmp_path), settings(), overwrite)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ('{"format": 1}', "was not written by transformer-cli"),
        ("half", "was not written by transformer-cli"),
        ('{"format": 9, "program": "transformer-cli", "version": "7"}', "by transformer-cli 7"),
    ],
)
def test_other_marks_are_refused(tmp_path: Path, mark: str, said: str) -> None:
    run = RunDirectory(tmp_path)
    initialize_run(run, settings())
    (tmp_path / "run.json").write_text(mark)
    with pytest.raises(RunError, match=f"^{tmp_path / 'run.json'}: .*{said}") as caught:
        initialize_run(run, settings(seed=2), overwrite=True)
    assert "\n" not in str(caught.value)
    assert run.load_config() == settings()


# --- files that settings are read from ------------------------------------------------------------


def test_a_run_is_trained_by_its_own_settings(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    initialize_run(run, settings())
    check_config_files(run.path, [run.config])


def test_nothing_else_that_settings_are_read_from_is_written_over(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    initialize_run(run, settings())
    mine = tmp_path / "my.yaml"
    within = run.path / "mine.yaml"
    check_config_files(run.path, [mine, within, tmp_path / "run-2" / "config.yaml"])
    for file in (run.config, run.tokenizer / "my.yaml"):
        with pytest.raises(ConfigError, match=f"^{file}: the settings are read from"):
            check_config_files(run.path, [mine, file])


def test_of_what_an_extension_writes_only_its_configuration_may_be_trained_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {"plan.yaml": {"configuration": True}, "page.yaml": {}}
    monkeypatch.setattr(directory, "_ADDED", added)
    monkeypatch.setattr(directory, "LOCKED", (*directory.LOCKED, *added))
    check_config_files(tmp_path, [tmp_path / "plan.yaml"])
    with pytest.raises(ConfigError, match=r"page\.yaml: the settings are read"):
        check_config_files(tmp_path, [tmp_path / "page.yaml"])


@pytest.mark.posix
@pytest.mark.parametrize("name", ["new", "link", "directory", "directory/new", "link of it/new"])
def test_an_output_in_a_run_is_refused_also_where_a_link_leads_out_of_it(
    tmp_path: Path, name: str
) -> None:
    run = tmp_path / "run"
    (run / "directory").mkdir(parents=True)
    write_mark(run)
    (tmp_path / "outside").mkdir()
    (run / "link").symlink_to(tmp_path / "outside")
    (run / "link of it").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=f"is in the run or model {run}; write elsewhere"):
        check_outside_runs(run / name, "-o")
    check_outside_runs(run / ".." / "outside" / "new", "-o")


def test_an_output_may_lie_below_what_another_program_has_called_run_json(tmp_path: Path) -> None:
    for text in ("{}", "no JSON", '{"program": "another"}'):
        (tmp_path / "run.json").write_text(text)
        check_outside_runs(tmp_path / "new", "-o")
