"""Output of ``translate`` other than plain text, and how it works with files."""

from functools import partial
from pathlib import Path

import pytest

from cli.conftest import Training
from cli.process import assert_refused, run, signal_at
from transformer_cli.base.text_files import compressor

TEXT = "1 2 3 4\n\n4 3 2 1\n5 5\n"
LINES = TEXT.splitlines()


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in").write_text(TEXT)
    return tmp_path


def in_small_chunks() -> None:
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = 1


def killed_at_the_last_line() -> None:
    in_small_chunks()
    signal_at("transformer_cli.inference.translator:TextTranslator", "translate_encoded", 4)


def translate(training: Training, here: Path, *options: str | Path) -> str:
    finished = run("translate", training.run, "-i", "in", *options, cwd=here)
    assert finished.err == ""
    assert finished.code == 0
    return finished.out


@pytest.mark.parametrize("penalty", ["-1", "101", "nan", "x"])
def test_a_length_penalty_out_of_range_is_refused(training: Training, penalty: str) -> None:
    refused = run("translate", training.run, "--length-penalty", penalty)
    assert_refused(refused, 2, "--length-penalty")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "in"], "-o in: is the file that -i reads"),
    ],
)
def test_what_does_not_go_together_is_refused(
    training: Training, here: Path, options: list[str], message: str
) -> None:
    assert_refused(run("translate", training.run, "-i", "in", *options, cwd=here), 2, message)


@pytest.mark.long_cases
@pytest.mark.parametrize("name", ["x.mo", "x.sdlxliff", "x.mo.gz", "x.SDLXLIFF"])
def test_the_markup_of_translators_files_is_no_text(
    training: Training, here: Path, name: str
) -> None:
    entry = b'msgid ""\nmsgstr ""\n\nmsgid "1 2"\nmsgstr ""\n'
    (here / name).write_bytes(compressor(Path(name))(entry))
    refused = run("translate", training.run, "-i", name, "-o", "out", cwd=here)
    assert_refused(refused, 2, f"{name}: its lines are not", "with one sentence on each line")
    scored = run("evaluate", training.run, "--src", "in", "--ref", name, cwd=here)
    assert_refused(scored, 2, f"{name}: its lines are not sentences")
    assert sorted(each.name for each in here.iterdir()) == sorted(["in", name])


@pytest.mark.long
def test_an_interrupted_translation_goes_on_in_the_same_form_alone(
    training: Training, here: Path
) -> None:
    options = ["--beam-size", "2", "--errors", "replace"]
    expected = translate(training, here, *options)
    command: list[str | Path] = ["translate", training.run, "-i", "in", "-o", "out", *options]
    go_on = partial(run, cwd=here, before=in_small_chunks)
    other: list[str | Path] = [*command[:-3], "1", *command[-2:]]
    for different, change in (
        (command[:-2], "errors was replace, now strict"),
        (other, "beam_size was 2, now 1"),
    ):
        begun = run(*command, cwd=here, before=killed_at_the_last_line)
        assert begun.code < 0
        assert change in go_on(*different).err
    assert run(*command, cwd=here, before=killed_at_the_last_line).code < 0
    finished = go_on(*command)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out").read_text() == expected
