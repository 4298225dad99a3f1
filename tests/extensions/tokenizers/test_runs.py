"""Runs whose tokenizer was made elsewhere: from vocab to a translation."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from cli.process import Finished, assert_refused, run
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

SYMBOLS = [f"{a} {b} {c} {d}" for a in "012345" for b in "012345" for c in "05" for d in "14"]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a SentencePiece model and a tokenizer.json, made by their own libraries."""
    directory = tmp_path_factory.mktemp("made")
    trainer: Any = sentencepiece.SentencePieceTrainer
    trainer.train(
        sentence_iterator=iter(SYMBOLS),
        model_prefix=str(directory / "spm"),
        vocab_size=16,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    library.train_from_iterator(SYMBOLS, trainers.WordPieceTrainer(special_tokens=specials))
    library.save(str(directory / "bert.json"))
    return directory


def kinds(made: Path) -> dict[str, str]:
    return {
        "sentencepiece_file": f"{{kind: sentencepiece_file, model: {made / 'spm.model'}}}",
        "huggingface": f"{{kind: huggingface, file: {made / 'bert.json'}}}",
    }


@pytest.mark.long_cases
@pytest.mark.parametrize("kind", ["sentencepiece_file", "huggingface"])
def test_a_run_goes_from_text_to_translations(
    config: Path, made: Path, tmp_path: Path, kind: str
) -> None:
    own = shutil.copytree(made, tmp_path / "made")
    asked = ("--set", f"tokenizer={kinds(own)[kind]}", "--set", "model.tying=all")
    epochs = ("--set", "training.epochs=1")
    found = run("vocab", config, *asked, cwd=tmp_path)
    assert (found.code, found.err.count("Warning"), found.err.count("huggingface/")) == (0, 0, 0)
    assert_good(run("train", config, *asked, *epochs, cwd=tmp_path))
    # The run has its own copy; the original may have been moved or deleted.
    shutil.rmtree(own)
    assert_good(run("train", config, *asked, *epochs, cwd=tmp_path))
    asked = ("--set", f"tokenizer={kinds(made)[kind]}", "--set", "model.tying=all")
    longer = ("--set", "training.epochs=2")
    assert_good(run("train", config, *asked, *longer, cwd=tmp_path))
    run_dir = tmp_path / "runs" / "tiny"
    lines = "1 2 3 4\n\n   \n😀 [SEP] </s>\na\tb\x00c\n"
    translated = run("translate", run_dir, stdin=lines.encode())
    assert_good(translated)
    assert translated.out.count("\n") == 5
    heir = ("--set", f"init={run_dir}", "--run-dir", tmp_path / "heir")
    assert_good(run("train", config, *asked, *epochs, *heir, cwd=tmp_path))


def assert_good(finished: Finished) -> None:
    assert finished.code == 0, finished.err


def test_another_file_in_the_same_place_is_taken_before_training(
    config: Path, made: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bert.json"
    shutil.copy(made / "bert.json", path)
    asked = ("--set", f"tokenizer={{kind: huggingface, file: {path}}}")
    assert_good(run("vocab", config, *asked, cwd=tmp_path))
    copied = tmp_path / "runs" / "tiny" / "tokenizer" / "joint.tokenizer.json"
    assert copied.read_bytes() == path.read_bytes()
    path.write_bytes(path.read_bytes() + b"\n")
    assert_good(run("vocab", config, *asked, cwd=tmp_path))
    assert copied.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("key", ["src_bpe_dropout", "tgt_bpe_dropout"])
def test_a_model_without_merges_is_not_sampled_from(
    config: Path, made: Path, tmp_path: Path, key: str
) -> None:
    asked = (f"tokenizer={kinds(made)['sentencepiece_file']}", f"training.{key}=0.1")
    options = [each for setting in asked for each in ("--set", setting)]
    refused = run("train", config, *options, cwd=tmp_path)
    assert_refused(refused, 2, f"training.{key}: needs merges to skip")
    assert_good(run("vocab", config, *options[:2], cwd=tmp_path))  # without sampling
    refused = run("train", config, *options, "--dry-run", cwd=tmp_path)
    assert_refused(refused, 2, f"training.{key}: needs merges to skip")


@pytest.mark.parametrize("kind", ["sentencepiece_file", "huggingface"])
def test_an_unusable_file_gives_one_line(config: Path, tmp_path: Path, kind: str) -> None:
    key = "model" if kind == "sentencepiece_file" else "file"
    path = tmp_path / "file"
    asked = ("--set", f"tokenizer={{kind: {kind}, {key}: {path}}}")
    assert_refused(run("vocab", config, *asked, cwd=tmp_path), 1, f"{path}: cannot be read")
    path.write_bytes(os.urandom(100))
    assert_refused(run("vocab", config, *asked, cwd=tmp_path), 1, f"{path}: not a ")
    assert not (tmp_path / "runs" / "tiny" / "tokenizer").exists()
