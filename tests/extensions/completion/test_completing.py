"""What a shell completes, asked as typer's scripts for bash and zsh ask."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli import process
from cli.conftest import Training
from cli.test_help import HEAVY, _set_environment

from transformer_cli.config.setting_tree import iter_leaves
from transformer_cli.config.shipped import find_configs
from transformer_cli.config.yaml import dump_config, load_config
from transformer_cli.data.kinds import open_kind
from transformer_cli.extensions.completion.completing import complete as complete_value

ROOT = Path(__file__).parents[3]
CONFIGS = list(find_configs().values())
COMPLETE = "_TRANSFORMER_CLI_COMPLETE"


def bash(*words: str) -> dict[str, str]:
    """What its script sets for words after the program's name; the last one is being completed."""
    line = "\n".join(("transformer-cli", *words))
    return {COMPLETE: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}


def complete(environment: dict[str, str], cwd: Path = ROOT) -> list[str]:
    finished = process.run(cwd=cwd, before=partial(_set_environment, environment))
    assert (finished.code, finished.err) == (0, "")
    return finished.out.split()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["model.nu"], ["num_heads=", "num_encoder_layers=", "num_decoder_layers="]),
        (["model.norm"], ["norm=", "norm_kind="]),
        (["model.pos"], ["positions=", "positions=sinusoidal", "positions=learned"]),
        (["model.dropout"], ["dropout=", "dropout=0.1"]),
        (["model.norm=p"], ["norm=pre", "norm=post"]),
        (["nothing.of.this.name"], []),
        (["nothing.of.this.name=1"], []),
    ],
)
def test_keys_of_settings_then_their_values(words: list[str], completed: list[str]) -> None:
    expected = [f"model.{each}" for each in completed]
    assert complete(bash("train", "mine.yaml", "--set", *words)) == expected


@pytest.mark.parametrize("typed", [["="], ["=", "p"]])
def test_in_bash_which_splits_words_at_their_equals_sign(typed: list[str]) -> None:
    words = ["train", "a.yaml", "--set", "seed", "=", "2", "--set", "model.norm", *typed]
    assert complete(bash(*words)) == ["pre", "post"]
    assert complete(bash("train", "a.yaml", "--precision", "=", "bf")) == ["bfloat16"]


def test_in_zsh_with_help() -> None:
    asked = "transformer-cli train mine.yaml --set training.schedule.kind=no"
    environment = {COMPLETE: "complete_zsh", "_TYPER_COMPLETE_ARGS": asked}
    assert '"training.schedule.kind=noam":"factor * d_model^-0.5' in " ".join(complete(environment))


def test_every_setting_of_the_shipped_files() -> None:
    context: Any = SimpleNamespace()
    known = {item.rstrip("=") for item, _ in complete_value("KEY=VALUE", context, "")}
    known |= {key.rpartition(".")[0] for key in known}  # sections, which may be null
    for config in CONFIGS:
        for keys, _ in iter_leaves(load_config(config).model_dump(mode="json")):
            key = ".".join(map(str, keys[:-1] if isinstance(keys[-1], int) else keys))
            assert key in known or key.startswith(("data.more", "data.sources", "data.test")), key


def test_files_are_left_to_the_shell(training: Training) -> None:
    directory = training.config.parent
    assert complete(bash("train", ""), directory) == []
    assert complete(bash("evaluate", ""), directory) == []


def test_splits_and_checkpoints_of_the_run_that_is_named(training: Training) -> None:
    directory = training.config.parent
    assert complete(bash("evaluate", "runs/tiny", "--split", ""), directory) == [
        *("train", "val", "test")
    ]
    steps = sorted(path.name for path in (training.run / "checkpoints").iterdir())
    completed = complete(bash("translate", "runs/tiny", "--checkpoint", ""), directory)
    assert completed == ["best", "last", *steps]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_splits_are_those_that_can_be_loaded(config: Path, tmp_path: Path) -> None:
    settings = load_config(config)
    (tmp_path / "config.yaml").write_text(dump_config(settings))
    names = open_kind(settings.data).split_names()
    if settings.data.kind == "corpus":  # then those that the run has files of
        names.sort()
        (tmp_path / "corpus").mkdir()
        for name in names:
            (tmp_path / "corpus" / f"{name}.src").touch()
    context: Any = SimpleNamespace(args=[str(tmp_path)], params={})
    assert [name for name, _ in complete_value("SPLIT", context, "")] == names


def test_named_test_splits(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: {kind: files, test: {news: {}, talks: {}}}\n")
    context: Any = SimpleNamespace(args=[], params={"run": tmp_path})
    assert [name for name, _ in complete_value("SPLIT", context, "")] == [
        "train",
        "val",
        "news",
        "talks",
    ]


@pytest.mark.parametrize("text", ["", "{", "data: [1]", "\ud800", "config: {kind: files}"])
def test_what_is_broken_completes_to_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert complete(bash("evaluate", str(tmp_path), "--split", "")) == []
    assert complete(bash("evaluate", str(tmp_path), "--checkpoint", "")) == []


def test_nothing_heavy_is_imported_and_nothing_is_moved(own_run: Path) -> None:
    # As a killed `--overwrite` leaves it: other commands put it back.
    (own_run / "previous").mkdir()
    (own_run / "config.yaml").rename(own_run / "previous" / "config.yaml")
    before = sorted(own_run.rglob("*"))
    heavy = {*HEAVY, "transformer_cli.config.schema"} - {"pydantic"}  # which typer itself imports
    driver = f"""
import json, os, sys
from transformer_cli.cli import main

for environment in json.loads(sys.argv.pop()):
    os.environ |= environment
    try:
        main()
    except SystemExit as end:
        assert end.code == 0
print(*({heavy!r} & sys.modules.keys()), file=sys.stderr)
"""
    lines = [
        ("train", "mine.yaml", "--set", ""),
        ("evaluate", str(own_run), "--split", ""),
        ("evaluate", str(own_run), "--checkpoint", ""),
        ("translate", str(own_run), "--engine", ""),
    ]
    asked = json.dumps([bash(*words) for words in lines])
    command = [sys.executable, "-c", driver, asked]
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stderr.decode() == "\n"
    assert sorted(own_run.rglob("*")) == before


def test_completion_can_be_had() -> None:
    for option in ("--install-completion", "--show-completion"):
        assert f"  {option} " in process.run("--help").out


@pytest.mark.parametrize("words", [["--show-completion", "zsh"], ["--show-completion=zsh"]])
def test_completion_is_for_the_shell_that_is_named(words: list[str]) -> None:
    finished = process.run(*words)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("#compdef transformer-cli\n")


def test_completion_for_a_shell_that_it_does_not_know() -> None:
    process.assert_refused(process.run("--show-completion", "tcsh"), 2, "'tcsh'", "'zsh'")


def test_completion_knows_the_commands() -> None:
    asked = {
        "_TRANSFORMER_CLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "transformer-cli tra",
        "COMP_CWORD": "1",
    }
    finished = process.run(before=partial(_set_environment, asked))
    assert finished.out.split() == ["train", "translate"]
    assert finished.err == ""
    assert finished.code == 0
