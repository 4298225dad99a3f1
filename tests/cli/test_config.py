"""``transformer-cli config`` as a user runs it."""

from pathlib import Path

import pytest

from cli import process
from cli.conftest import TINY
from cli.process import assert_refused, run
from transformer_cli.config.yaml import load_config

DERIVED = "base: tiny.yaml\ntraining: {epochs: 2}\n"


@pytest.fixture
def derived(config: Path) -> Path:
    path = config.with_name("derived.yaml")
    path.write_text(DERIVED)
    return path


# --- show -----------------------------------------------------------------------------------------


def test_show_resolves_bases_and_defaults(derived: Path) -> None:
    asked = ("--set", "training.epochs=1", "--set", "seed=4")
    shown = run("config", "show", "derived.yaml", *asked, cwd=derived.parent)
    assert (shown.code, shown.err) == (0, "")
    settings = [line.partition("#")[0].rstrip() for line in shown.out.splitlines()]
    assert settings[0] == "seed: 4"
    for line in ("  epochs: 1", "  batch_tokens: 200", "    peak: 0.01", "  keep_last: 2"):
        assert line in settings


def test_what_is_shown_is_a_configuration(derived: Path) -> None:
    path = derived.with_name("shown.yaml")
    path.write_text(run("config", "show", derived).out)
    assert load_config(path) == load_config(derived)


def test_show_refuses_what_is_no_configuration(tmp_path: Path) -> None:
    assert_refused(run("config", "show", tmp_path), 2, f"{tmp_path}: not a run directory")
    assert_refused(run("config", "show", tmp_path / "no.yaml"), 2, "no such file")


# --- validate --------------------------------------------------------------------------


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


def test_the_bare_command_shows_its_help() -> None:
    shown = run("config")
    assert shown == run("config", "--help")
    assert "\nCommands:\n" in shown.out
