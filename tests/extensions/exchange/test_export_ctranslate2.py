"""``export --format ctranslate2`` and ``translate --engine ctranslate2``, as users run them."""

import json
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import Finished, assert_refused, run, signal_at

TEXT = b"1 2 3 4\n\n4 3 2 1\n6 6 6\n \n5\n1 2 3 4 5 6 1 2 3\n"


def export(run_path: Path, directory: Path, *options: str, before: Any = None) -> Finished:
    return run("export", run_path, directory, "--format", "ctranslate2", *options, before=before)


def translated(path: Path, *options: str | Path, stdin: bytes = TEXT) -> str:
    finished = run("translate", path, *options, stdin=stdin)
    assert (finished.code, finished.err) == (0, "")
    return finished.out


@pytest.fixture(scope="module")
def directory(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported trained run; tests must not change it."""
    path = tmp_path_factory.mktemp("export") / "exported"
    finished = export(training.run, path)
    assert (finished.code, finished.err) == (0, "")
    assert finished.out == f"{path}: step-00000060 of {training.run}, for ctranslate2\n"
    return path


def test_lines_are_translated_as_by_torch(training: Training, directory: Path) -> None:
    expected = translated(training.run, "--engine", "torch")
    assert len(set(expected.split("\n"))) >= 5, "the case is too easy"
    assert translated(training.run, "--engine", "ctranslate2", "--threads", "2") == expected
    assert translated(directory) == expected
    beam = ("--beam-size", "3", "--batch-tokens", "30")
    assert translated(directory, *beam) == translated(training.run, *beam, "--engine", "torch")


def test_documents_and_text_with_a_memory_are_translated(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("x 1 2\n")
    (tmp_path / "x.txt").write_text("x 1 2\n")
    (tmp_path / "own.tsv").write_text("x 1 2\t3\n")
    for name, *options in (("x.md",), ("x.txt", "--memory", "own.tsv")):
        files = ("-i", name, "-o", f"new-{name}")
        finished = run("translate", directory, *files, *options, cwd=tmp_path)
        assert finished.code == 0, finished.err
    assert (tmp_path / "new-x.txt").read_text() == "3\n"


def test_an_existing_empty_directory_is_filled(training: Training, tmp_path: Path) -> None:
    path = tmp_path / "exported"
    path.mkdir()
    assert export(training.run, path, "--checkpoint", "last", "--quantization", "int8").code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["exported"]
    # The model is hardly trained, so some of its choices are close.
    numbers = b"".join(b"%d %d %d %d\n" % (a, b, a, b) for a in range(1, 7) for b in range(1, 7))
    ours = translated(training.run, "--checkpoint", "last", stdin=numbers).split("\n")
    theirs = translated(path, stdin=numbers).split("\n")
    assert sum(map(str.__eq__, ours, theirs)) >= 0.8 * len(ours)


def killed_at_the_second_line() -> None:
    from transformer_cli.inference import translator

    translator.CHUNK_LINES = 1
    signal_at("transformer_cli.inference.output:Output", "write", 2)


@pytest.mark.posix
def test_a_translation_goes_on_with_its_own_engine_only(
    training: Training, directory: Path, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(TEXT)
    command = ("translate", training.run, "-i", source, "-o", target, "--engine")
    assert run(*command, "ctranslate2", before=killed_at_the_second_line).code == -signal.SIGKILL
    again = run(*command, "ctranslate2")
    assert (again.code, again.err) == (0, "")
    assert target.read_text() == translated(directory)
    target.unlink()
    assert run(*command, "ctranslate2", before=killed_at_the_second_line).code == -signal.SIGKILL
    assert f"ctranslate2 was {version('ctranslate2')}, now none" in run(*command, "torch").err


@pytest.mark.posix
def test_a_stopped_export_leaves_nothing(training: Training, tmp_path: Path) -> None:
    stop = partial(
        signal_at,
        "transformer_cli.extensions.exchange.to_ctranslate2",
        "write_tokenizer",
        1,
        signal.SIGTERM,
    )
    assert export(training.run, tmp_path / "exported", before=stop).code == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_exported_is_refused(
    training: Training, directory: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "no" / "where"
    assert_refused(export(training.run, directory), 2, f"{directory}: already exists")
    assert_refused(export(training.run, nowhere), 2, f"no directory {nowhere.parent}")
    assert_refused(export(tmp_path, tmp_path / "new"), 2, "not a run directory")
    assert_refused(export(training.run, tmp_path / "new", "--quantization", "int3"), 2, "int8")
    finished = run(
        "export", training.run, tmp_path / "new", "--format", "onnx", "--quantization", "int8"
    )
    assert_refused(finished, 2, "--quantization int8: onnx does not support it")
    finished = run("export", training.run, tmp_path / "new", "--format", "transformers")
    assert_refused(finished, 2, "tokenizer.kind: words: ", "train with sentencepiece")
    assert list(tmp_path.iterdir()) == []


def test_an_exported_model_is_no_run(directory: Path, tmp_path: Path) -> None:
    for command in (("evaluate", directory), ("translate", directory, "--engine", "torch")):
        assert_refused(run(*command), 1, f"{directory}: is exported for CTranslate2")
    finished = run("translate", directory, "--checkpoint", "last")
    assert_refused(finished, 2, f"--checkpoint last: {directory} holds one exported model")
    import ctranslate2  # not above: a test has it missing

    if "bfloat16" not in ctranslate2.get_supported_compute_types("cpu"):
        finished = run("translate", directory, "--precision", "bfloat16")
        assert_refused(
            finished, 2, "error: CTranslate2 does not support this precision: ", "bfloat16"
        )
    assert_refused(export(directory, tmp_path / "new"), 1, "is exported for CTranslate2")


def test_options_that_need_our_own_model_are_refused(
    training: Training, directory: Path, tmp_path: Path
) -> None:
    options = ("--alignments", tmp_path / "links", "--prefix-file", "-")
    finished = run("translate", directory, *options, "-i", __file__)
    needing = "does not support --alignments and --prefix-file; leave it out, or name the run"
    assert_refused(finished, 2, f"{directory}: ", needing)
    for option in (("--engine", "ctranslate2"), ("--precision", "int8")):
        finished = run("translate", training.run, "--replace-unk", *option)
        by = " ".join(option)
        said = f"{by}: does not support --replace-unk; leave out {by} or --replace-unk"
        assert_refused(finished, 2, said)


def test_several_translations_are_found_and_about_as_likely(
    training: Training, directory: Path
) -> None:
    ours, theirs = (
        [json.loads(line) for line in translated(path, "--n-best", "3").splitlines()]
        for path in (training.run, directory)
    )
    assert len(ours) == len(theirs) == len(TEXT.splitlines())
    for our, their in zip(ours, theirs, strict=True):
        assert our["line"] == their["line"]
        best, again = our["translations"][0], their["translations"][0]
        assert best["text"] == again["text"]
        # Tokens that are never written have no probability there.
        assert -1e-3 <= again["log_probability"] - best["log_probability"] < 0.2


def test_without_the_package_it_is_named(training: Training, tmp_path: Path) -> None:
    missing = "needs the package ctranslate2", "pip install 'ctranslate2'"
    assert_refused(export(training.run, tmp_path / "new", before=_uninstall), 1, *missing)
    finished = run("translate", training.run, "--engine", "ctranslate2", before=_uninstall)
    assert_refused(finished, 1, "--engine ctranslate2: ", *missing)
    assert list(tmp_path.iterdir()) == []


def _uninstall() -> None:
    class Uninstalled:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            if name.partition(".")[0] == "ctranslate2":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Uninstalled)
