"""``transformer-cli config`` as a user runs it."""

import json
from pathlib import Path

import pytest
from cli import process
from cli.conftest import TINY, Training
from cli.process import assert_refused, run

from transformer_cli.config.yaml import load_config
from transformer_cli.extensions.config_tools.json_schema import schema_text
from transformer_cli.extensions.config_tools.origins import load_origins
from transformer_cli.runs.directory import RunDirectory

DERIVED = "base: tiny.yaml\ntraining: {epochs: 2}\n"


@pytest.fixture
def derived(config: Path) -> Path:
    path = config.with_name("derived.yaml")
    path.write_text(DERIVED)
    return path


# --- show -----------------------------------------------------------------------------------------


def test_show_says_where_each_value_comes_from(derived: Path) -> None:
    asked = ("--set", "training.epochs=1", "--set", "seed=4")
    shown = run("config", "show", "derived.yaml", *asked, cwd=derived.parent)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "seed: 4                    # --set"
    assert "  epochs: 1                # --set, instead of 2 in derived.yaml:2" in lines
    assert "  batch_tokens: 200        # tiny.yaml:6" in lines
    assert "    peak: 0.01             # tiny.yaml:9" in lines
    assert "  keep_last: 2             # default" in lines


def test_what_is_shown_is_a_configuration(derived: Path) -> None:
    path = derived.with_name("shown.yaml")
    path.write_text(run("config", "show", derived).out)
    assert load_config(path) == load_config(derived)


def test_show_of_a_run_says_where_its_settings_came_from(training: Training, own_run: Path) -> None:
    shown = run("config", "show", own_run, "--set", "decoding.beam_size=3", "--set", "seed=2")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "seed: 2                    # --set"
    assert f"  epochs: 12               # {training.config}:5" in lines
    assert "  keep_last: 2             # default" in lines
    assert "  beam_size: 3             # --set" in lines


@pytest.mark.parametrize("damage", ["missing", "half", "other settings"])
def test_a_run_is_as_good_without_its_origins(
    training: Training, own_run: Path, damage: str
) -> None:
    path = own_run / "origins.json"
    match damage:
        case "missing":
            path.unlink()
        case "half":
            path.write_bytes(path.read_bytes()[:99])
        case _:
            path.write_text(path.read_text().replace('sha256": "', 'sha256": "0'))
    shown = run("config", "show", own_run)
    assert shown.code == 0
    assert shown.err.count("\n") == 1
    assert "where its settings come from is not known" in shown.err
    assert shown.out.startswith(f"seed: 1                    # {own_run}/config.yaml:1\n")
    assert run("translate", own_run, stdin=b"1 2\n").code == 0
    # Training makes them again.
    assert run("train", training.config, "--run-dir", own_run).code == 0
    assert path.read_bytes() == (training.run / "origins.json").read_bytes()


def test_show_refuses_what_is_no_configuration(tmp_path: Path) -> None:
    assert_refused(run("config", "show", tmp_path), 2, f"{tmp_path}: not a run directory")
    assert_refused(run("config", "show", tmp_path / "no.yaml"), 2, "no such file")


# --- a run's origins ------------------------------------------------------------------------------


def test_vocab_writes_what_train_goes_on_with(derived: Path) -> None:
    directory = RunDirectory(derived.with_name("run"))
    assert run("vocab", derived, "--run-dir", directory.path).code == 0
    origins = load_origins(directory.path)
    assert [str(written) for written in origins["training.epochs"]] == [
        f"{derived}:2",
        f"{derived.with_name('tiny.yaml')}:5",
    ]
    # Settings that change are told again; of those that are read from the run itself, it is known
    # where they first came from.
    asked = ("--run-dir", directory.path, "--set", "training.epochs=1")
    assert run("train", directory.config, *asked).code == 0
    again = load_origins(directory.path)
    latest, replaced, *_ = again["training.epochs"]
    assert (str(latest), str(replaced), replaced.value) == ("--set", f"{derived}:2", 2)
    assert again["model.d_model"] == origins["model.d_model"]
    assert again.keys() == origins.keys()
    assert "base" not in directory.config.read_text()
    over = ("--run-dir", directory.path, "--overwrite")
    assert run("vocab", directory.config, *over).code == 0
    assert load_origins(directory.path) == again


# --- validate and schema --------------------------------------------------------------------------


def test_validate_tells_of_each_file(config: Path, derived: Path) -> None:
    good = run("config", "validate", config, derived)
    assert good == process.Finished(0, f"{config}: ok\n{derived}: ok\n", "")
    bad, worse = config.with_name("bad.yaml"), config.with_name("worse.yaml")
    bad.write_text(TINY.replace("epochs", "epoch"))
    worse.write_text("base: tiny.yaml\ntraining: {epochs: x}\n")
    found = run("config", "validate", bad, derived, worse, config.parent)
    assert (found.code, found.out) == (2, f"{derived}: ok\n")
    of_bad, of_worse, of_directory = found.err.splitlines()
    assert of_bad.startswith(f"transformer-cli: error: {bad}:5: training.epoch: unknown key")
    assert of_worse.startswith(f"transformer-cli: error: {worse}:2: training.epochs: expected a ")
    assert of_directory.startswith(f"transformer-cli: error: {config.parent}: is a directory")


def test_schema_is_printed() -> None:
    assert run("config", "schema") == process.Finished(0, schema_text(), "")
    assert json.loads(schema_text())["additionalProperties"] is False


def test_the_bare_command_shows_its_help() -> None:
    shown = run("config")
    assert shown == run("config", "--help")
    assert "\nCommands:\n" in shown.out
