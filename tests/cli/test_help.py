"""The options of all commands, and the names in help and messages."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from installed import is_whole

import transformer_cli
from cli import process
from transformer_cli import __version__
from transformer_cli.base import messages, registry
from transformer_cli.cli import display, list_commands, load_command

COMMANDS = tuple(list_commands())
GROUPS = [
    (name, command) for name in COMMANDS for command in getattr(load_command(name), "commands", {})
]
"""Commands of groups of commands."""
ALL = [(), *((name,) for name in COMMANDS), *GROUPS]

HEAVY = {
    "ctranslate2",
    "matplotlib",
    "numpy",
    "plotly",
    "pydantic",
    "sacrebleu",
    "sacremoses",
    "sentencepiece",
    "spacy",
    "torch",
}

# A change here is a change for users: it belongs in the changelog.
OPTIONS = {
    "init": [
        "DIR",
        "--from",
    ],
    "vocab": [
        "CONFIG",
        "--run-dir",
        "--set",
        "--overwrite",
    ],
    "train": [
        "CONFIG",
        "--run-dir",
        "--set",
        "--overwrite",
        "--dry-run",
        "--device",
        "--precision",
        "--threads",
    ],
    "evaluate": [
        "RUN",
        "--split",
        "--src",
        "--ref",
        "--output -o",
        "--json",
        "--device",
        "--precision",
        "--threads",
        "--checkpoint",
        "--beam-size",
    ],
    "translate": [
        "RUN",
        "--input -i",
        "--output -o",
        "--errors",
        "--checkpoint",
        "--beam-size",
        "--batch-tokens",
        "--max-length",
        "--length-penalty",
        "--no-repeat-ngram-size",
        "--device",
        "--precision",
        "--threads",
        "--engine",
    ],
    "average": ["RUN", "--last"],
}


def test_the_options_of_the_core_are_as_published() -> None:
    found = {}
    for name in OPTIONS:
        added = {
            each.name
            for entry in registry.entries(f"{name} options").values()
            for each in fields(entry.load())
        }
        found[name] = [
            " ".join(parameter.opts)
            if parameter.param_type_name == "option"
            else str(parameter.metavar)
            for parameter in load_command(name).params
            if parameter.name not in added
        ]
    assert found == OPTIONS


def help_of(*command: str, option: str = "--help") -> str:
    """Return the help on a terminal that is wider than any help text should be."""
    wide = partial(_set_environment, {"COLUMNS": "300"})
    finished = process.run(*command, option, before=wide)
    assert finished.code == 0
    assert finished.err == ""
    return finished.out


@pytest.mark.long_cases
@pytest.mark.parametrize("command", ALL)
def test_help_says_what_it_is_for_gives_an_example_and_fits_a_screen(
    command: tuple[str, ...],
) -> None:
    text = help_of(*command)
    usage, blank, purpose, *rest = text.splitlines()
    assert usage.startswith("Usage: ")
    assert blank == ""
    assert purpose.startswith("  ")
    assert purpose.endswith(".")
    assert "  Example:" in rest
    assert rest[rest.index("  Example:") + 1].startswith("    transformer-cli ")
    assert max(map(len, text.splitlines())) <= 100
    assert len(text.splitlines()) <= 72


def test_the_bare_program_shows_its_help() -> None:
    finished = process.run()
    assert (finished.code, finished.err) == (0, "")
    assert finished.out.startswith("Usage: transformer-cli ")
    assert "\nCommands:\n" in finished.out


def test_short_help_is_the_same() -> None:
    assert help_of("train", option="-h") == help_of("train")


def test_program_names_its_own_commands_in_the_order_of_use_then_those_of_extensions() -> None:
    listed = help_of().partition("Commands:\n")[2].splitlines()
    titles = {"", "Commands of extensions:"}
    assert [line.split()[0] for line in listed if line not in titles] == list(COMMANDS)
    assert COMMANDS[:4] == ("init", "config", "vocab", "train")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_by_the_first_sentence_of_its_help(name: str) -> None:
    assert load_command(name).help.startswith(f"{list_commands()[name].read_summary()}\n")


def test_every_option_has_help() -> None:
    for name in COMMANDS:
        command = load_command(name)
        for one in (command, *getattr(command, "commands", {}).values()):
            for parameter in one.params:
                assert getattr(parameter, "help", None), f"{one.name} {parameter.name}"


@pytest.mark.skipif(not is_whole(), reason="extensions ask for marks too")
def test_each_mark_of_an_option_is_one_that_commands_ask_for_or_an_ending() -> None:
    package = Path(transformer_cli.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    asked = set(re.findall(r'\.marked\("(\w+)"\)', code))
    kinds = (e.load() for name in COMMANDS for e in registry.entries(f"{name} options").values())
    options = [get_args(each.type)[1] for kind in kinds for each in fields(kind)]
    marks = {mark for option in options for mark in getattr(option, "marks", ())}
    assert {mark for mark in marks - asked if not mark.startswith(".")} == set()


def test_help_imports_nothing_heavy() -> None:
    driver = f"""
import sys
from transformer_cli.cli import main

print("at first", *({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
for command in {ALL!r}:
    sys.argv = ["transformer-cli", *command, "--help"]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0
# Typer itself reads options by pydantic.
print("at last", *({HEAVY!r} & sys.modules.keys() - {{"pydantic"}}), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", driver], capture_output=True, check=True)
    assert done.stderr.decode() == "at first\nat last\n"
    assert done.stdout.count(b"Usage: ") == len(ALL)


def test_version() -> None:
    finished = process.run("--version")
    assert finished == process.Finished(0, f"transformer-cli {__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "option", "instead"),
    [
        ("train", "--epochs", "--set training.epochs="),
        ("train", "--peak=3", "--set training.schedule.peak="),
        ("train", "--seed", "--set seed="),
        ("vocab", "--vocab-size", "--set tokenizer.vocab_size="),
    ],
)
def test_an_option_that_is_a_setting_is_answered_by_that(
    command: str, option: str, instead: str
) -> None:
    said = f"No such option: {option.partition('=')[0]}; use {instead} (see: "
    process.assert_refused(process.run(command, "x", option, "1"), 2, said)


def test_an_option_that_is_no_setting_is_unknown() -> None:
    for command, option in (("train", "--gpus"), ("train", "--kind"), ("translate", "--lr")):
        finished = process.run(command, "x", option, "1")
        process.assert_refused(finished, 2, f"No such option: {option}")
        assert "; use" not in finished.err
    unlike_any = process.run("train", "x", "--qqqq", "1")
    process.assert_refused(unlike_any, 2, "No such option: --qqqq; installed extensions: ")


def test_a_value_that_an_option_does_not_have() -> None:
    finished = process.run("translate", "x", "--device", "gpu")
    process.assert_refused(finished, 2, "'--device': 'gpu' is not one of 'auto', 'cpu', ")


def test_text_or_a_file_after_the_run_is_advised() -> None:
    finished = process.run("translate", "x", "letter.de")
    process.assert_refused(finished, 2, "(letter.de); give a file with -i, or pipe text: echo ")


@pytest.mark.long
def test_what_a_wheel_prints_names_no_page_that_it_lacks() -> None:
    package = Path(__file__).parents[2] / "transformer_cli"
    for command in ALL:
        assert "docs/" not in help_of(*command)
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in documentation:
                assert "docs/" not in str(node.value), f"{path}:{node.lineno}"
    shipped = (package.parent / "configs").rglob("*.*")
    assert [path for path in shipped if "docs/" in path.read_text(encoding="utf-8")] == []


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.update(variables)


def test_messages_below_cli_name_options_as_python_does() -> None:
    options = {
        option.removeprefix("--").replace("-", "_")
        for name in COMMANDS
        for command in [load_command(name)]
        for one in (command, *getattr(command, "commands", {}).values())
        for parameter in one.params
        for option in parameter.opts
    }
    package = Path(transformer_cli.__file__).parent
    for path in package.rglob("*.py"):
        where = path.relative_to(package).as_posix()
        if not where.startswith(("cli/", "extensions/", "training/loss")):  # names what torch says
            for text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
                assert not re.search(r"(?<!toy)(?<!init )--[a-z]", text.removeprefix("--set")), (
                    f"{path}: {text}"
                )
                assert set(re.findall("`([a-z_]+)`", text)) <= options, f"{path}: {text}"


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module, without its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_only_errors_name_options_and_quotes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    display.print_error("use `device` cpu, or CUDA's files; 'a `device` b' is no name")
    messages.log("line 1: `device`")
    messages.warn("`device`", "`beam_size`")
    assert capsys.readouterr().err.splitlines() == [
        "transformer-cli: error: use --device cpu, or CUDA's files; 'a `device` b' is no name",
        "line 1: `device`",
        "warning: `device`: `beam_size`",
    ]
