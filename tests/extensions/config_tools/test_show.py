"""The origins of settings, as a user sees them."""

from pathlib import Path

from cli.conftest import Training
from cli.process import assert_refused, run

from transformer_cli.config.yaml import load_config


def test_show_of_a_run_names_the_lines_of_its_own_settings(training: Training) -> None:
    shown = run("config", "show", training.run, "--set", "decoding.beam_size=3")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == f"seed: 1                       # {training.run / 'config.yaml'}:1"
    assert any(
        line.startswith("  beam_size: 3                # --set, instead of ") for line in lines
    )


def test_show_says_where_each_value_comes_from(derived: Path) -> None:
    asked = ("--set", "training.epochs=1", "--set", "seed=4")
    shown = run("config", "show", "derived.yaml", *asked, cwd=derived.parent)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "seed: 4                       # --set"
    assert "  epochs: 1                   # --set, instead of 2 in derived.yaml:2" in lines
    assert "  batch_tokens: 200           # tiny.yaml:6" in lines
    assert "    peak: 0.01                # tiny.yaml:9" in lines
    assert "  keep_last: 2                # default" in lines


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
