"""A corpus of several sources: trained on, killed and resumed, scored, and checked."""

import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli.process import Finished, run, signal_at
from cli.same import assert_same_run
from cli.test_kill import at_rename

ROOT = Path(__file__).parents[3]
CONFIG = """
data:
  kind: corpus
  src_lang: de
  tgt_lang: en
  sources:
    - {src: a.de, tgt: a.en, weight: 1.5}
    - {src: b.de, tgt: b.en, tag: web, weight: 0.3}
  replay: {share: 0.4, sources: [{src: c.de, tgt: c.en, tag: old}]}
  split: {val: 10, test: 12}
tokenizer: {kind: sentencepiece, vocab_size: 330, protect: [printf]}
model: {d_model: 16, num_heads: 2, d_ff: 16, num_encoder_layers: 1, num_decoder_layers: 1}
training: {epochs: 2, batch_tokens: 400, validate_every: 20, save_every: 10}
"""
SHAPES = ("circle", "square", "star", "line", "cross")


def write_sources(directory: Path) -> None:
    pairs = [
        (f"Zeichne %d {color} {shape} Nr. {n} {n * 7}", f"draw %d {color} {shape} no. {n} {n * 7}")
        for n in range(20)
        for color in ("rot", "blau", "gelb")
        for shape in SHAPES
    ]
    sources = {
        "a": [*pairs[:200], *pairs[:10]],
        "b": [*pairs[200:], ("", "blank")],
        "c": [(f"Gehe {n} Schritte", f"go {n} steps") for n in range(90)],
    }
    for name, found in sources.items():
        for side, lines in zip(("de", "en"), zip(*found, strict=True), strict=True):
            (directory / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    (directory / "corpus.yaml").write_text(CONFIG)


def train(
    directory: Path, before: Callable[[], None] | None = None, run_dir: Path = Path("run")
) -> Finished:
    return run("train", "corpus.yaml", "--run-dir", run_dir, cwd=directory, before=before)


def weights(directory: Path) -> list[bytes]:
    last = max((directory / "run" / "checkpoints").glob("step-*"))
    return [(last / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with sources and a finished run: look at it, and change nothing."""
    directory = tmp_path_factory.mktemp("trained")
    write_sources(directory)
    finished = train(directory)
    assert finished.code == 0, finished.err
    assert "sources[0] a.de: 210 pairs; kept: " in finished.err
    assert "left out: 10 duplicates\n" in finished.err
    assert "left out: 1 blank\n" in finished.err
    assert re.search(r"^replay +\d+ of \d+ pairs an epoch, drawn from 90$", finished.err, re.M)
    return directory


KILLS = {
    "while the sources are read": partial(
        signal_at, "transformer_cli.extensions.checks.rules:FilterPass", "add", 2
    ),
    "while the splits are drawn": partial(
        signal_at, "transformer_cli.extensions.corpora.deciding", "draw", 1
    ),
    "while they are written": partial(
        signal_at, "transformer_cli.extensions.corpora.prepared", "SourceRecord", 1
    ),
    "before the corpus gets its name": partial(at_rename, r".* -> corpus", after=False),
    "after it has its name": partial(at_rename, r".* -> corpus", after=True),
    "in a weighted epoch": partial(
        signal_at, "transformer_cli.training.trainer:Trainer", "_update", 17
    ),
}


@pytest.mark.long
@pytest.mark.posix
def test_killed_anywhere_it_ends_in_the_same_bytes(trained: Path, tmp_path: Path) -> None:
    for point, kill in KILLS.items():
        assert train(trained, kill, tmp_path / "run").code == -signal.SIGKILL, point
    finished = train(trained, run_dir=tmp_path / "run")
    assert finished.code == 0, finished.err
    assert_same_run(tmp_path / "run", trained / "run")


@pytest.mark.long
def test_a_begun_run_does_without_its_sources(trained: Path, tmp_path: Path) -> None:
    write_sources(tmp_path)
    killed = train(tmp_path, KILLS["in a weighted epoch"])
    assert killed.code == -signal.SIGKILL
    # They have moved, and one has changed.
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*tmp_path.glob("?.??")]:
        path.rename(moved / path.name)
    (moved / "a.de").write_text("something else\n")
    config = tmp_path / "corpus.yaml"
    config.write_text(re.sub(r"\b([abc]\.(de|en))", r"moved/\1", CONFIG))
    finished = train(tmp_path)
    assert finished.code == 0, finished.err
    assert "sources[0] " not in finished.err  # as where it is read
    assert weights(tmp_path) == weights(trained)
    config.write_text(config.read_text().replace("weight: 1.5", "weight: 2"))
    assert "data.sources[0].weight was 1.5, now 2.0" in train(tmp_path).err


def test_before_a_run_is_begun_changed_sources_are_read_again(tmp_path: Path) -> None:
    write_sources(tmp_path)
    vocab = ("vocab", "corpus.yaml", "--run-dir", "run")
    first = run(*vocab, cwd=tmp_path)
    assert "sources[0] a.de: 210 pairs" in first.err
    assert "sources[0]" not in run(*vocab, cwd=tmp_path).err
    for name, line in (("a.de", "Zeichne nichts"), ("a.en", "draw nothing")):
        with (tmp_path / name).open("a") as file:
            file.write(f"{line}\n")
    again = run(*vocab, cwd=tmp_path)
    assert again.code == 0, again.err
    assert "sources[0] a.de: 211 pairs" in again.err


@pytest.mark.long
def test_a_lost_file_is_written_again_while_the_sources_are_as_they_were(tmp_path: Path) -> None:
    write_sources(tmp_path)
    vocab = ("vocab", "corpus.yaml", "--run-dir", "run")
    assert run(*vocab, cwd=tmp_path).code == 0
    lost = tmp_path / "run" / "corpus" / "val.src"
    text = lost.read_bytes()
    lost.unlink()
    assert run(*vocab, cwd=tmp_path).code == 0
    assert lost.read_bytes() == text
    assert train(tmp_path, KILLS["in a weighted epoch"]).code == -signal.SIGKILL
    lost.write_bytes(text[:-1])
    away = (tmp_path / "a.de").rename(tmp_path / "away.de")
    failed = train(tmp_path)
    assert failed.code == 1
    assert "run/corpus/val.src: has changed since it was written, and its sources" in failed.err
    assert "restore the file, or start again with --overwrite" in failed.err
    away.rename(tmp_path / "a.de")
    assert train(tmp_path).code == 0
    assert lost.read_bytes() == text


def test_its_splits_are_scored_with_their_tags(trained: Path) -> None:
    for split, count in (("val", 10), ("test", 12)):
        scored = run("evaluate", "run", "--split", split, cwd=trained)
        assert scored.code == 0, scored.err
        assert scored.out.startswith(f"{split}: {count} sentences")


def test_check_reads_the_sources(trained: Path) -> None:
    checked = run("check", "corpus.yaml", cwd=trained)
    assert checked.code == 0, checked.err
    assert [line.split()[:2] for line in checked.out.splitlines() if line[:5] == "test "] == [
        ["test", "12"]
    ]


def test_languages_of_different_scripts_are_checked_and_trained_on(tmp_path: Path) -> None:
    write_sources(tmp_path)
    for path in tmp_path.glob("?.de"):
        cyrillic = re.sub("(?<!%)[a-z]", lambda each: chr(ord(each[0]) + 0x3CF), path.read_text())
        path.write_text(cyrillic.replace("Z", "З").replace("N", "Н").replace("G", "Г"))
    russian = ("--set", "data.src_lang=ru")
    checked = run("check", "corpus.yaml", *russian, cwd=tmp_path)
    assert (checked.code, "mistake" in checked.out) == (0, False), checked.err
    trained = run("train", "corpus.yaml", *russian, "--set", "training.max_steps=1", cwd=tmp_path)
    assert trained.code == 0, trained.err
    swapped = ("--set", "data.src_lang=en", "--set", "data.tgt_lang=ru")
    checked = run("check", "corpus.yaml", *swapped, cwd=tmp_path)
    assert checked.code == 1
    assert "mistake: train: its source is in the script of 'ru' and its target" in checked.out


def test_check_shows_what_it_finds_in_text_that_was_drawn(tmp_path: Path) -> None:
    write_sources(tmp_path)
    with (tmp_path / "a.de").open("a") as src, (tmp_path / "a.en").open("a") as tgt:
        src.write("Zeichne \N{REPLACEMENT CHARACTER} mit einem sehr langen Satz dahinter\n")
        tgt.write("draw \N{REPLACEMENT CHARACTER} with a very long sentence behind it\n")
    checked = run("check", "corpus.yaml", cwd=tmp_path)
    (found,) = re.findall(r"\[encoding\].*", checked.out)
    shown = re.search(r"train:\d+ '(Zeichne \N{REPLACEMENT CHARACTER} mit einem .*….*)'", found)
    assert shown is not None, found
    assert shown[1].endswith("dahinter")
