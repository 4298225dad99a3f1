from pathlib import Path

import pytest

from cli.process import run


def list_base_files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Return the bytes and the modification time of each file, by name."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


def test_vocab_prints_a_summary_and_writes_the_tokenizer(config: Path) -> None:
    finished = run("vocab", "tiny.yaml", cwd=config.parent)
    assert finished.code == 0
    assert finished.err == ""
    rows = [line.split() for line in finished.out.splitlines()]
    assert ["source", "(xx)", "target", "(xx)"] in rows
    assert ["lines", "200", "200"] in rows
    assert ["tokens", "800", "800"] in rows
    # six symbols and the four specials
    assert ["vocabulary", "10", "10"] in rows
    assert ["unknown", "in", "val", "0.00%", "0.00%"] in rows
    assert rows[-1] == ["written", "to", "runs/tiny/tokenizer"]
    names = {path.name for path in (config.parent / "runs/tiny/tokenizer").iterdir()}
    assert names == {"src.vocab.txt", "tgt.vocab.txt", "tokenizer.json"}


def test_vocab_counts_blank_and_unknown(tmp_path: Path) -> None:
    (tmp_path / "files.yaml").write_text(
        "data:\n  kind: files\n  src_lang: de\n  tgt_lang: en\n"
        "  train: {src: train.de, tgt: train.en}\n  val: {src: val.de, tgt: val.en}\n"
        "tokenizer: {kind: words, min_freq: 2}\n"
    )
    (tmp_path / "train.de").write_text("ja ja\n\nnein\n \n")
    (tmp_path / "train.en").write_text("yes yes yes\nno\nno no\n\n")
    (tmp_path / "val.de").write_text("ja nein ja nein\n")
    (tmp_path / "val.en").write_text("yes no yes no\n")
    finished = run("vocab", "files.yaml", "--run-dir", "here", cwd=tmp_path)
    rows = [line.split() for line in finished.out.splitlines()]
    assert ["lines", "2", "2"] in rows
    assert ["tokens", "3", "5"] in rows
    assert ["vocabulary", "5", "6"] in rows
    assert ["unknown", "in", "val", "50.00%", "0.00%"] in rows
    assert "pairs with a blank side, left out: 2 of train, 0 of val\n" in finished.out
    assert rows[-1] == ["written", "to", "here/tokenizer"]


def test_train_takes_the_vocabulary_that_is_there(config: Path) -> None:
    assert run("vocab", "tiny.yaml", cwd=config.parent).code == 0
    tokenizer = config.parent / "runs" / "tiny" / "tokenizer"
    made = list_base_files(tokenizer)
    assert run("vocab", "tiny.yaml", cwd=config.parent).code == 0
    assert list_base_files(tokenizer) == made
    few_steps = ("--set", "training.max_steps=2")
    assert run("train", "tiny.yaml", *few_steps, cwd=config.parent).code == 0
    assert list_base_files(tokenizer) == made


def test_before_training_a_changed_tokenizer_is_made_anew(config: Path) -> None:
    first = run("vocab", config, cwd=config.parent)
    second = run("vocab", config, "--set", "tokenizer.max_size=7", cwd=config.parent)
    assert first.code == second.code == 0
    sizes = [line.split()[1] for line in second.out.splitlines() if line.startswith("vocabulary")]
    assert sizes == ["7"]


@pytest.mark.long_cases
@pytest.mark.parametrize("command", ["train", "vocab"])
@pytest.mark.parametrize("before", ["nothing", "vocab"])
def test_a_tokenizer_that_cannot_be_learned_is_in_nobodys_way(
    config: Path, command: str, before: str
) -> None:
    directory = config.parent / "run"
    arguments = (config, "--run-dir", directory)
    if before == "vocab":
        assert run("vocab", *arguments).code == 0
    impossible = "tokenizer={kind: sentencepiece, vocab_size: 60000}"
    failed = run(command, *arguments, "--set", impossible)
    assert failed.code == 2
    assert "vocab_size" in failed.err.splitlines()[-1]
    assert run("vocab", *arguments).code == 0


def test_vocab_of_subwords(config: Path) -> None:
    finished = run(
        "vocab",
        config,
        "--set",
        "tokenizer={kind: sentencepiece, vocab_size: 17, byte_fallback: false}",
        cwd=config.parent,
    )
    assert finished.code == 0
    assert "\nvocabulary " in finished.out
    tokenizer = config.parent / "runs" / "tiny" / "tokenizer"
    assert {path.name for path in tokenizer.iterdir()} == {"joint.model", "tokenizer.json"}
