"""``transformer-cli config`` as a user runs it."""

from pathlib import Path

import pytest

from cli import process
from cli.conftest import TINY
from cli.process import assert_refused, run

DERIVED = "base: tiny.yaml\ntraining: {epochs: 2}\n"


@pytest.fixture
def derived(config: Path) -> Path:
    path = config.with_name("derived.yaml")
    path.write_text(DERIVED)
    return path


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
    assert of_worse.startswith(f"transformer-cli: error: {worse}:2: training.epochs: expected an ")
    assert of_directory.startswith(f"transformer-cli: error: {config.parent}: is a directory")


def test_the_bare_command_shows_its_help() -> None:
    shown = run("config")
    assert shown == run("config", "--help")
    assert "\nCommands:\n" in shown.out


def test_what_no_extension_adds_is_an_error_that_lists_them() -> None:
    assert_refused(run("config", "nix"), 2, "No such command 'nix'; installed extensions: ")
