"""Every command that README and docs/ show works, on a small scale."""

import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from cli import process
from installed import is_whole

from documents.commands import ROOT, Command, commands, documents
from transformer_cli.base import registry
from transformer_cli.base.errors import UsageError
from transformer_cli.base.text_files import write_text
from transformer_cli.cli import list_commands, load_command

SHOWN = [
    command
    for path in documents()
    if path.name != "tutorial.md"  # test_tutorial.py follows it
    for command in commands(path)
]
# A tenth of a second of training, on captions that are there.
SMALL = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: data/toy/val.de, tgt: data/toy/val.en}
  val: {src: ten.de, tgt: ten.en}
  test:
    test: {src: ten.de, tgt: ten.en}
    test_2016_flickr: {src: ten.de, tgt: ten.en}
    test_2017_flickr: {src: ten.de, tgt: ten.en}
    test_2017_mscoco: {src: ten.de, tgt: ten.en}
    news: {src: ten.de, tgt: ten.en}
    published: {src: ten.de, tgt: ten.en}
    tatoeba: {src: ten.de, tgt: ten.en}
model:
  {d_model: 16, num_heads: 2, d_ff: 32, num_encoder_layers: 2, num_decoder_layers: 2, norm: post}
training: {batch_tokens: 1000, max_steps: 2}
tokenizer: @TOKENIZER@
"""
TOKENIZERS = {
    "words": "{kind: words, min_freq: 2}",
    "subwords": "{kind: sentencepiece, vocab_size: 400}",
}
# What ``sweep`` does with real trainings is in tests/extensions/experiments/test_sweep.py.
SWEEP = "base: small.yaml\nseeds: 1\n"
# And that of ``distill`` is in tests/extensions/experiments/test_distill.py.
DISTILL = "teachers: [small.yaml]\nstudent: small.yaml\n"
CORPUS = """\
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources: [{src: data/toy/val.de, tgt: data/toy/val.en}]
  split: {val: 5}
tokenizer: {kind: words}
"""
# Directories that commands read, by the format that they were exported in.
EXPORTS = {"exported": "ctranslate2", "shared": "hub", "opus-mt-de-en": "transformers"}
WITH_CONFIG = ("train", "vocab", "check", "config")
# Files that a command makes or reads, by the option before them.
INPUTS = ("-i", "--input", "--src", "--tgt", "--ref", "--prefix-file")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two small runs in it, and what they were trained on."""
    directory = tmp_path_factory.mktemp("shown")
    _furnish(directory)
    for name, tokenizer in TOKENIZERS.items():
        (directory / f"{name}.yaml").write_text(SMALL.replace("@TOKENIZER@", tokenizer))
        finished = process.run("train", f"{name}.yaml", cwd=directory)
        assert finished.code == 0, finished.err
        averaged = process.run("average", f"runs/{name}", "--last", "1", cwd=directory)
        assert averaged.code == 0, averaged.err
    for name, form in EXPORTS.items():
        exported = process.run("export", "runs/subwords", name, "--format", form, cwd=directory)
        assert exported.code == 0, exported.err
    return directory


def _furnish(directory: Path) -> None:
    (directory / "data").mkdir(parents=True)
    (directory / "data" / "toy").symlink_to(ROOT / "data" / "toy")
    (directory / "configs").symlink_to(ROOT / "configs")
    for side in ("de", "en"):
        lines = (ROOT / "data" / "toy" / f"test.{side}").read_text(encoding="utf-8").splitlines()
        (directory / f"ten.{side}").write_text("".join(f"{line}\n" for line in lines[:10]))


def test_commands_are_found() -> None:
    shown = {command.arguments[0] for command in SHOWN if command.document == "README.md"}
    assert {"train", "evaluate", "translate"} <= shown


EACH_COMMAND = pytest.mark.parametrize(
    "command", SHOWN, ids=[f"{command.document}: {command.line}" for command in SHOWN]
)


def _parse(command: Command) -> None:
    """Check a command's arguments, unless it is one of an extension that is not here."""
    name, *arguments = command.arguments
    if name.startswith("-"):
        return
    if name not in list_commands() and not is_whole():
        pytest.skip("no such command is installed")
    group = load_command(name)
    try:
        while hasattr(group, "resolve_command"):
            name, group, arguments = group.resolve_command(typer.Context(group), arguments)
        group.make_context(name, arguments)
    except (typer.TyperException, UsageError):
        if not is_whole():
            pytest.skip("no such option is installed")
        if not command.refused:
            raise


@EACH_COMMAND
def test_command_has_options_that_there_are(command: Command) -> None:
    _parse(command)


@pytest.mark.long
@EACH_COMMAND
def test_command_works(command: Command, trained: Path, tmp_path: Path) -> None:
    if "--from opus" in command.line:
        pytest.skip("does not ask OPUS; tests/extensions/stores/test_by_name.py has a server")
    if command.arguments[0] == "bench":
        pytest.skip("measures for a minute; tests/extensions/bench/test_bench.py has a small one")
    if "://" in command.line:
        pytest.skip("no store and no cluster is asked; tests/extensions has its own")
    if command.arguments[0] == "translate" and set(_list_document_endings()) & {
        Path(each).suffix for each in command.arguments
    }:
        pytest.skip("documents of each format are in tests/extensions/documents")
    if "--add" in command.line:
        pytest.skip("the text is not there; tests/extensions/growing/test_growing.py has some")
    directory = tmp_path / "here"
    directory.mkdir()
    arguments = list(command.arguments)
    if arguments[0] == "init":  # it may not write into what a furnished directory links to
        for side in ("de", "en"):
            shutil.copy(ROOT / "data" / "toy" / f"val.{side}", directory / f"my.{side}")
    else:
        _furnish(directory)
    if arguments[0] == "sweep":
        _write_small(directory / "small.yaml")
        (directory / "sweep.yaml").write_text(SWEEP)
        arguments = ["sweep", "sweep.yaml", *arguments[2:], "--dry-run"]
    elif arguments[0] == "distill":
        _write_small(directory / "small.yaml")
        (directory / "distill.yaml").write_text(DISTILL)
        arguments = [*dict.fromkeys(["distill", "distill.yaml", *arguments[2:], "--dry-run"])]
    elif arguments[0] == "import":  # from a directory, as the Hub is not asked
        shutil.copytree(trained / "opus-mt-de-en", directory / "opus-mt-de-en")
        arguments = ["import", "opus-mt-de-en", arguments[2]]
    elif arguments[0] == "clean":
        (directory / arguments[1]).write_text(CORPUS)
    elif arguments[0] in WITH_CONFIG:
        arguments = _made_small(arguments, directory, command.refused)
    else:
        _make_runs(arguments, directory, trained)
    _make_inputs(arguments, directory)
    stdin = b""
    if command.feeding:
        stdin = subprocess.run(
            ["bash", "-c", command.feeding], cwd=directory, stdout=subprocess.PIPE, check=True
        ).stdout
    if command.processes > 1:
        finished = process.run_ranks(command.processes, *arguments, cwd=directory)[0]
    else:
        finished = process.run(*arguments, cwd=directory, stdin=stdin)
    if command.refused:
        assert finished.err.startswith("transformer-cli: error: ")
    elif arguments[0] == "check":  # warnings are its result
        assert finished.code in (0, 1), finished.err
    else:
        assert finished.code == 0, finished.err


def _list_document_endings() -> Iterator[str]:
    """Yield the endings of documents that ``_make_inputs`` cannot make."""
    for entry in registry.entries("document").values():
        yield from entry.facts["endings"] if entry.name != "po" else ()


def _made_small(arguments: list[str], directory: Path, refused: bool) -> list[str]:
    """The command with the small experiment in place of its own."""
    for place, argument in enumerate(arguments):
        if not argument.endswith(".yaml") or arguments[place - 1].startswith("-"):
            continue
        if not (directory / argument).exists():
            (directory / argument).parent.mkdir(parents=True, exist_ok=True)
            _write_small(directory / argument)
        elif not refused and arguments[0] != "config":
            small = directory / Path(argument).name
            _write_small(small)
            arguments[place] = small.name
    return arguments


def _write_small(path: Path) -> None:
    path.write_text(SMALL.replace("@TOKENIZER@", TOKENIZERS["subwords"]))


def _make_runs(arguments: list[str], directory: Path, trained: Path) -> None:
    """Have a trained run, or an exported one, wherever the command names one."""
    for place, argument in enumerate(arguments):
        if argument in EXPORTS and arguments[0] != "export":
            shutil.copytree(trained / argument, directory / argument)
        if not argument.startswith(("runs/", "/work/runs/")):
            continue
        if "/" in argument[5:] and not argument.endswith("/student"):  # of a distillation
            continue
        if place and arguments[place - 1] in ("-o", "--output"):
            continue
        kind = "words" if {"--replace-unk"} & set(arguments) else "subwords"
        shutil.copytree(trained / "runs" / kind, directory / argument, dirs_exist_ok=True)


def _make_inputs(arguments: list[str], directory: Path) -> None:
    for option, name in pairwise(arguments):
        path = directory / name.replace("*", "1")
        if option == "--cluster":
            path.write_text("local: {workers: 1}\n")
        if option in INPUTS and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            side = "de" if option in ("-i", "--input", "--src") else "en"
            write_text(path, (directory / f"ten.{side}").read_text(encoding="utf-8"))
            if path.suffix == ".po":
                path.write_text('msgid "Ein Hund"\nmsgstr ""\n')
            if path.suffix == ".tsv":
                sides = [
                    (directory / f"ten.{side}").read_text().splitlines() for side in ("de", "en")
                ]
                path.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in zip(*sides, strict=True)))
        if option in ("-o", "--output"):
            path.parent.mkdir(parents=True, exist_ok=True)
