"""The record of where a run's settings were written, as a user sees it."""

from pathlib import Path

import pytest
from cli.conftest import Training
from cli.process import run

from transformer_cli.extensions.config_tools.run_origins import load_origins
from transformer_cli.runs.directory import RunDirectory


def test_show_of_a_run_says_where_its_settings_came_from(training: Training, own_run: Path) -> None:
    shown = run("config", "show", own_run, "--set", "decoding.beam_size=3", "--set", "seed=2")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "seed: 2                    # --set"
    assert f"  epochs: 12               # {training.config}:5" in lines
    assert "  keep_last: 2             # default" in lines
    assert "  beam_size: 3             # --set" in lines


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
