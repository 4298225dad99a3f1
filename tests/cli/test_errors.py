import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.process import assert_refused, run

FILES = """\
data:
  kind: files
  src_lang: de
  tgt_lang: en
  train: {src: train.de, tgt: train.en}
  val: {src: train.de, tgt: train.de}
tokenizer: {kind: words, min_freq: 1}
"""


@pytest.mark.long_cases
@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["trian"], ["trian", "--help"]),
        (["train"], ["CONFIG", "--from RUN --add FILE"]),
        (["translate"], ["RUN", "translate --help"]),
        (["train", "tiny.yaml", "--epochs", "3"], ["--epochs"]),
        (["translate", "run", "--beam-size", "0"], ["--beam-size", "1, not 0 "]),
        (["translate", "run", "--beam-size", "many"], ["--beam-size", ", not many "]),
        (["train", "tiny.yaml", "--device", "gpu"], ["--device", "gpu", "cpu", "cuda"]),
        (["train", "tiny.yaml", "and", "more"], ["and more"]),
        (["train", "--overwrite"], ["CONFIG"]),
        (["translate", "run", "--output"], ["--output"]),
        (["train", "none.yaml"], ["none.yaml: no such file"]),
        (["train", "tiny.yaml", "--set", "training.epoch=3"], ["did you mean 'epochs'?"]),
        (["train", "tiny.yaml", "--set", "training.epochs"], ["KEY=VALUE"]),
        (["train", "tiny.yaml", "--set", "training.epochs=few"], ["training.epochs", "few"]),
        (["vocab", "tiny.yaml", "--set", "a\nb=c"], ["--set a b=c"]),
        (["train", "tiny.yaml", "--device", "cuda"], ["--device cpu"]),
    ],
)
def test_a_wrong_command_line_is_refused(
    config: Path, arguments: Sequence[str], fragments: Sequence[str]
) -> None:
    assert_refused(run(*arguments, cwd=config.parent), 2, *fragments)
    assert [path.name for path in config.parent.iterdir()] == [config.name]


def test_a_misspelt_key_is_named_with_its_line(config: Path) -> None:
    config.write_text(config.read_text().replace("  epochs:", "  epoch:"))
    refused = run("train", "tiny.yaml", cwd=config.parent)
    assert_refused(refused, 2, "tiny.yaml:5: training.epoch: ", "did you mean 'epochs'?")


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_a_run_that_is_not_there(tmp_path: Path, command: str) -> None:
    assert_refused(run(command, "none", cwd=tmp_path), 2, "none: not a run directory")


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_a_run_that_is_not_trained(config: Path, command: str) -> None:
    assert run("vocab", config, "--run-dir", "new", cwd=config.parent).code == 0
    assert_refused(run(command, "new", cwd=config.parent), 1, "no checkpoint yet; train first")


def test_a_checkpoint_that_is_not_there(own_run: Path) -> None:
    refused = run("translate", own_run, "--checkpoint", "step-7")
    assert_refused(refused, 2, "--checkpoint step-7: not found; give best, last")
    refused = run("translate", own_run, "--checkpoint", "bset")
    assert_refused(refused, 2, "--checkpoint bset: not found", "did you mean 'best'?")


def test_a_damaged_checkpoint(own_run: Path) -> None:
    weights = own_run / "checkpoints" / "step-00000060" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    refused = run("translate", own_run, "--checkpoint", "last")
    assert_refused(refused, 1, str(weights), "damaged", "use another checkpoint")


def test_a_tokenizer_edited_after_training(own_run: Path) -> None:
    vocabulary = own_run / "tokenizer" / "src.vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "more\n")
    assert_refused(run("translate", own_run), 1, str(vocabulary), "changed since it was written")


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_a_tokenizer_that_is_gone(own_run: Path, command: str) -> None:
    shutil.rmtree(own_run / "tokenizer")
    refused = run(command, own_run)
    assert_refused(refused, 1, f"{own_run}/tokenizer/tokenizer.json: cannot be read", "restore it")


def test_sides_of_different_lengths(tmp_path: Path) -> None:
    (tmp_path / "files.yaml").write_text(FILES)
    (tmp_path / "train.de").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "train.en").write_text("one\ntwo\n")
    (tmp_path / "val.de").write_text("vier\n")
    (tmp_path / "val.en").write_text("four\n")
    refused = run(
        "train", "files.yaml", "--set", "data.val={src: val.de, tgt: val.en}", cwd=tmp_path
    )
    assert_refused(refused, 1, "train.de has 3 lines but", "train.en has 2")


def test_a_missing_corpus(tmp_path: Path) -> None:
    (tmp_path / "files.yaml").write_text(FILES)
    refused = run("vocab", "files.yaml", cwd=tmp_path)
    assert_refused(refused, 2, f"{tmp_path / 'train.de'}: there is no such file")
    assert [path.name for path in tmp_path.iterdir()] == ["files.yaml"]


def test_a_run_directory_that_holds_something_else(config: Path) -> None:
    thesis = config.parent / "work" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("all of it")
    part = thesis.with_name("film.partial-1")
    part.touch()
    refused = run("train", config, "--run-dir", thesis.parent, "--overwrite")
    assert_refused(refused, 1, str(thesis.parent), "--run-dir")
    assert thesis.read_text() == "all of it"
    assert sorted(thesis.parent.iterdir()) == [part, thesis]


def test_a_run_directory_that_is_a_file(config: Path) -> None:
    refused = run("train", config, "--run-dir", config)
    assert_refused(refused, 2, str(config), "is a file; choose another --run-dir")


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (["--src", "some.de"], ["--src needs", "give it with --ref"]),
        (["--ref", "some.en"], ["--ref needs", "give it with --src"]),
        (["--split", "val", "--src", "some.de", "--ref", "some.en"], ["--split, or --src"]),
    ],
)
def test_evaluate_wants_a_split_or_two_files(
    own_run: Path, options: Sequence[str], fragments: Sequence[str]
) -> None:
    assert_refused(run("evaluate", own_run, *options), 2, *fragments)


def test_an_unknown_split(own_run: Path) -> None:
    refused = run("evaluate", own_run, "--split", "tset")
    assert_refused(refused, 2, "no split 'tset'; did you mean 'test'?")


def test_input_that_is_not_there(own_run: Path) -> None:
    refused = run("translate", own_run, "-i", "none.txt", cwd=own_run)
    assert_refused(refused, 2, "none.txt: there is no such file", f"here {own_run}")


def test_input_that_is_not_utf8(own_run: Path) -> None:
    (own_run / "latin.txt").write_bytes("1 2\nM\u00fcll\n".encode("latin-1"))
    refused = run("translate", own_run, "-i", "latin.txt", cwd=own_run)
    assert_refused(refused, 1, "latin.txt:2: not UTF-8", "0xfc", "iconv -f NAME -t UTF-8")


def test_standard_input_that_is_not_utf8(own_run: Path) -> None:
    refused = run("translate", own_run, stdin=b"1 2\n3\n\xff\n")
    assert_refused(refused, 1, ":3: not UTF-8", "0xff")


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_output_into_a_directory_that_is_not_there(own_run: Path, command: str) -> None:
    refused = run(command, own_run, "-o", "none/out.txt", cwd=own_run, stdin=b"1 2\n")
    assert_refused(refused, 2, "-o none/out.txt: there is no directory none")


@pytest.mark.parametrize("command", ["evaluate", "translate"])
def test_output_onto_a_directory(own_run: Path, command: str) -> None:
    (own_run / "out").mkdir()
    before = sorted(own_run.iterdir())
    refused = run(command, own_run, "-o", "out", cwd=own_run, stdin=b"1 2\n")
    assert sorted(own_run.iterdir()) == before
    assert_refused(refused, 2, "-o out: is a directory")


@pytest.mark.posix
def test_output_to_what_is_no_plain_file_goes_there(own_run: Path) -> None:
    # A pipe stands for /dev/null and /dev/stdout, which root would lose.
    pipe = own_run / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("translate", own_run, "-o", pipe, stdin=b"1 2\n\n").code == 0
        assert pipe.is_fifo()
        assert os.read(reader, 1000).count(b"\n") == 2
    finally:
        os.close(reader)


def test_a_loss_that_is_no_number(config: Path) -> None:
    refused = run("train", config, "--set", "training.schedule.peak=1e30", cwd=config.parent)
    assert "Traceback" not in refused.err
    last_line = refused.err.splitlines()[-1]
    assert re.match(
        r"transformer-cli: error: step \d+ \(epoch 1, batch \d+\): the loss is ", last_line
    )
    assert refused.out == ""
    assert refused.code == 1
    assert list((config.parent / "runs" / "tiny" / "checkpoints").iterdir()) == []
