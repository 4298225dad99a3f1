"""The corpus and its tokenizers made ready, with numbers worked out by hand."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from prepared_text import TRAIN, WORDS, Pairs, ids, prepared, stored

from transformer_cli.base import artifact, locations
from transformer_cli.base.errors import ConfigError, CorpusError, RunError
from transformer_cli.base.ranks import SINGLE_PROCESS
from transformer_cli.config.schema import Config
from transformer_cli.data import corpus, store
from transformer_cli.data.corpus import BlockStats, StreamedText
from transformer_cli.data.shards import ShardedStore
from transformer_cli.data.store import read_stats
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text import words
from transformer_cli.text.tokenizer import fingerprint, have_same_tokenizers
from transformer_cli.training import preparation
from transformer_cli.training.preparation import (
    PreparedData,
    build_trainer,
    open_prepared_data,
)
from transformer_cli.training.summary import summarize_sides

SUBWORDS = {"kind": "sentencepiece", "vocab_size": 20, "joint": False, "byte_fallback": False}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def files_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Each file, known again if it is written again."""
    stats = ((path.name, path.stat()) for path in directory.iterdir())
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats}


def test_blank_pairs_are_counted_and_dropped(run: RunDirectory) -> None:
    texts, result = prepared(run)
    assert (texts.train.stats.blank, texts.blank_in_val) == (2, 1)
    assert list(texts.train.src) == ["a b c", "a b", "a d"]
    assert list(texts.train.tgt) == ["x y", "x", "x y z w v"]
    assert texts.val.src == ["a e", "b"]
    assert texts.val.tgt == ["x q r", "y"]
    assert (len(result.train), len(result.val)) == (3, 2)
    # Seen twice in training: a 3 times, b 2 times; x 3 times, y 2 times.
    assert ids(stored(result).src) == [[4, 5, 0], [4, 5], [4, 0]]
    assert ids(stored(result).tgt) == [[4, 5], [4], [4, 5, 0, 0, 0]]
    assert ids(result.val.src) == [[4, 0], [5]]
    assert ids(result.val.tgt) == [[4, 0, 0], [5]]


def test_the_summary_by_hand(run: RunDirectory) -> None:
    data = prepared(run)[1]
    rows = {name: sides for name, *sides in summarize_sides(run.load_config(), data)}
    assert rows["lines"] == ["3", "3"]
    assert rows["tokens"] == [str(3 + 2 + 2), str(2 + 1 + 5)]
    assert rows["vocabulary"] == [str(4 + 2), str(4 + 2)]
    assert rows["unknown in val"] == ["33.33%", "50.00%"]  # a *e* b; x *q* *r* y


def test_subwords_have_a_size(run: RunDirectory) -> None:
    lines = ["der alte mann", "die alte frau", "das kleine kind", "ein hund und ein mann"]
    pairs = [(line, line[::-1]) for line in lines]
    data = prepared(run, pairs, pairs[:1], SUBWORDS)[1]
    rows = {name: sides for name, *sides in summarize_sides(run.load_config(), data)}
    assert rows["vocabulary"] == ["20", "20"]
    assert rows["unknown in val"] == ["0.00%", "0.00%"]


def test_tokenizers_are_learned_once(run: RunDirectory) -> None:
    _, first = prepared(run)
    files = files_of(run.tokenizer)
    known = fingerprint(run.tokenizer)
    _, second = prepared(run, val=[("b c", "y")])
    assert files_of(run.tokenizer) == files
    assert fingerprint(run.tokenizer) == known
    assert ids(stored(second).src) == ids(stored(first).src)
    assert ids(second.val.src) == [[5, 0]]


OTHER_TEXT = [("q", "q"), ("q b", "q y")]


@pytest.mark.long
def test_before_training_another_text_has_other_tokenizers(run: RunDirectory) -> None:
    prepared(run)
    _, result = prepared(run, train=OTHER_TEXT)
    assert ids(stored(result).src) == [[4], [4, 0]]
    assert prepared(run)[1].tokenizers.src.size > result.tokenizers.src.size


def test_a_trained_run_refuses_another_text(run: RunDirectory) -> None:
    prepared(run)
    (run.checkpoints / "step-00000001").mkdir()
    files = files_of(run.tokenizer)
    with pytest.raises(RunError, match=f"^{run.path}: [^\n]*text has changed[^\n]*`overwrite`$"):
        prepared(run, train=OTHER_TEXT)
    assert files_of(run.tokenizer) == files
    prepared(run, val=OTHER_TEXT)  # what weights do not depend on may change


def test_a_tokenizer_that_cannot_be_learned_leaves_none(run: RunDirectory) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.min_freq"):
        prepared(run, tokenizer=WORDS | {"min_freq": 9})
    assert not run.tokenizer.exists()
    assert not list(run.path.glob("*.partial-*"))


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_split_of_blank_pairs_is_refused(run: RunDirectory, split: str) -> None:
    blank: Any = {split: [("a", ""), (" ", "x")]}
    with pytest.raises(CorpusError, match=f"^split '{split}': [^\n]*blank"):
        prepared(run, **blank)
    assert not run.tokenizer.exists()


# --- the store ------------------------------------------------------------------------------------


def encoding(run: RunDirectory) -> list[str]:
    """What is done with the training text's lines when the run is made ready once more."""
    labels: list[str] = []

    def watch(lines: Iterable[str], label: str) -> Iterable[str]:
        labels.append(f"{label} of {len(list(lines))}")
        return lines

    with pytest.MonkeyPatch.context() as patch:
        for module in (store, words):
            patch.setattr(module, "show_progress", watch)
        prepared(run)
    return labels


ENCODING = ["encoding of 3"]
LEARNING = ["source text of 3", "target text of 3"]


def test_the_training_text_is_encoded_once(run: RunDirectory) -> None:
    assert encoding(run) == [*LEARNING, *ENCODING]
    files = files_of(run.encoded)
    assert encoding(run) == []
    assert files_of(run.encoded) == files
    texts, result = prepared(run)
    assert (texts.train.stats.blank, len(texts.train)) == (2, 3)
    assert ids(stored(result).tgt) == [[4, 5], [4], [4, 5, 0, 0, 0]]


MADE = {"ids", "pages"}
"""Files of the store that are always the same; store.json also notes the text's times."""
STORED = MADE | {"store.json"}


@pytest.mark.long
def test_a_store_that_is_gone_or_damaged_is_made_anew(run: RunDirectory) -> None:
    prepared(run)
    whole = {name: (run.encoded / name).read_bytes() for name in MADE}
    assert {path.name for path in run.encoded.iterdir()} == STORED
    for name in ("ids", "pages", "store.json"):
        (run.encoded / name).write_bytes(b"not this")
        assert encoding(run) == ENCODING
        assert {name: (run.encoded / name).read_bytes() for name in MADE} == whole
    shutil.rmtree(run.encoded)
    assert encoding(run) == ENCODING
    assert {name: (run.encoded / name).read_bytes() for name in MADE} == whole
    assert not list(run.path.glob("*.partial-*"))


@pytest.fixture
def long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file was changed long enough ago for its times to tell of the next change."""
    monkeypatch.setattr(locations, "_SETTLED_NS", 0)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An item each time that the training text is checked."""
    passes: list[str] = []
    check_pairs = corpus.check_pairs

    def watched(pairs: corpus.Pairs, *looks: Any) -> BlockStats:
        passes.append("checked")
        return check_pairs(pairs, *looks)

    monkeypatch.setattr(corpus, "check_pairs", watched)
    return passes


@pytest.mark.long
@pytest.mark.usefixtures("long_ago")
def test_a_later_start_reads_neither_the_text_nor_the_whole_store(
    run: RunDirectory, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, _ = prepared(run)
    known = read_stats(run.encoded)
    assert known is not None
    assert known.mtime_key is not None
    passes.clear()
    monkeypatch.setattr(artifact, "sha256", lambda path: pytest.fail("all is read"))
    assert StreamedText.of(texts.train.source, known).stats == known
    assert passes == []


@pytest.mark.long
@pytest.mark.usefixtures("long_ago")
@pytest.mark.parametrize("size", ["same", "other"])
def test_a_changed_text_is_noticed_though_its_time_is_set_back(
    run: RunDirectory, size: str
) -> None:
    texts, _ = prepared(run)
    known = read_stats(run.encoded)
    path = run.path.parent / "train.src"
    before = path.stat()
    text = path.read_text()
    path.write_text(text.replace("c", "q") if size == "same" else text.replace("c", "qq"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    stats = StreamedText.of(texts.train.source, known).stats
    assert stats.text_sha256 != texts.train.stats.text_sha256


def test_a_text_that_was_just_written_is_read_again(run: RunDirectory, passes: list[str]) -> None:
    texts, _ = prepared(run)
    known = read_stats(run.encoded)
    assert known is not None
    assert known.mtime_key is None
    passes.clear()
    StreamedText.of(texts.train.source, known)
    assert passes


@pytest.mark.usefixtures("long_ago")
def test_new_times_are_noted_once_all_was_checked(run: RunDirectory, passes: list[str]) -> None:
    texts, _ = prepared(run)
    os.utime(run.path.parent / "train.src", ns=(1, 1))
    passes.clear()
    assert encoding(run) == []
    assert passes
    passes.clear()
    known = read_stats(run.encoded)
    assert StreamedText.of(texts.train.source, known).stats == known
    assert passes == []


# --- other processes ------------------------------------------------------------------------------


@pytest.mark.long
def test_other_processes_get_the_same_by_reading_alone(run: RunDirectory) -> None:
    texts, made = prepared(run)
    for path in (run.path.parent / "train.src", run.path.parent / "train.tgt"):
        path.unlink()  # they do not even look at it
    directories = (run.path, run.encoded, run.tokenizer)
    before = [files_of(directory) for directory in directories]
    theirs = open_prepared_data(run.load_config(), run)
    assert [files_of(directory) for directory in directories] == before
    assert ids(stored(theirs).src) == ids(stored(made).src)
    assert ids(theirs.val.tgt) == ids(made.val.tgt)
    assert theirs.texts.train.stats == read_stats(run.encoded)
    assert theirs.texts.val == texts.val
    assert theirs.tokenizers.src.encode("a b q") == made.tokenizers.src.encode("a b q")


def test_what_is_not_ready_is_refused(run: RunDirectory) -> None:
    prepared(run)
    settings = run.load_config()
    whole = shutil.copytree(run.path, run.path.with_name("whole"))

    def refused() -> None:
        expected = f"^{run.encoded}: missing, or does not belong[^\n]*vocab CONFIG$"
        with pytest.raises(RunError, match=expected):
            open_prepared_data(settings, run)
        shutil.rmtree(run.path)
        shutil.copytree(whole, run.path)

    for directory in (run.encoded, run.tokenizer):
        shutil.rmtree(directory)
        refused()
    (run.encoded / "pages").write_bytes(b"cut off")
    refused()
    shutil.rmtree(run.tokenizer)
    shutil.rmtree(run.encoded)
    prepared(run, tokenizer=WORDS | {"min_freq": 1})
    for part in ("tokenizer", "encoded"):
        shutil.copytree(run.path / part, run.path.with_name(f"other-{part}"))
    shutil.rmtree(run.path)
    shutil.copytree(whole, run.path)
    shutil.rmtree(run.tokenizer)
    shutil.copytree(run.path.with_name("other-tokenizer"), run.tokenizer)
    refused()


def test_tokenizers_learned_anew_encode_anew(run: RunDirectory) -> None:
    prepared(run)
    shutil.rmtree(run.tokenizer)
    _, result = prepared(run, tokenizer=WORDS | {"min_freq": 1})
    assert ids(stored(result).src) == [[4, 5, 6], [4, 5], [4, 7]]


def test_a_store_that_cannot_be_written_is_one_line(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(preparation, "write_store", no_room)
    with pytest.raises(RunError, match=f"^{run.encoded}: cannot be written: No space left"):
        prepared(run)


# --- inherited tokenizers -------------------------------------------------------------------------


def test_tokenizers_of_an_earlier_run_are_taken_over(run: RunDirectory) -> None:
    earlier = RunDirectory(run.path.with_name("earlier"))
    prepared(earlier)
    _, result = prepared(run, train=OTHER_TEXT, init=earlier)
    assert have_same_tokenizers(earlier.tokenizer, run.tokenizer)
    assert fingerprint(earlier.tokenizer) != fingerprint(run.tokenizer)
    assert ids(stored(result).src) == [[0], [0, 5]]  # b is 5 there, and here it would be 4
    files = files_of(run.tokenizer)
    prepared(run, train=OTHER_TEXT, init=earlier)
    assert files_of(run.tokenizer) == files


def test_until_training_begins_they_are_those_of_the_weights_to_come(run: RunDirectory) -> None:
    """The earlier run may be trained again in between, with vocabularies of the same sizes."""
    earlier = RunDirectory(run.path.with_name("earlier"))
    prepared(earlier)
    prepared(run, init=earlier)
    prepared(earlier, train=[(src[::-1], tgt) for src, tgt in TRAIN + TRAIN])
    assert not have_same_tokenizers(earlier.tokenizer, run.tokenizer)
    prepared(run, init=earlier)
    assert have_same_tokenizers(earlier.tokenizer, run.tokenizer)


def test_once_training_has_begun_the_earlier_run_may_be_gone(run: RunDirectory) -> None:
    earlier = RunDirectory(run.path.with_name("earlier"))
    prepared(earlier)
    _, first = prepared(run, init=earlier)
    (run.checkpoints / "step-00000001").mkdir()
    shutil.rmtree(earlier.path)
    _, second = prepared(run, init=earlier)
    assert ids(stored(second).src) == ids(stored(first).src)


# --- what is trained on ---------------------------------------------------------------------------


def lengths(*pairs: tuple[int, int]) -> Pairs:
    return [(" ".join("a" * src), " ".join("x" * tgt)) for src, tgt in pairs]


def short_pairs(result: PreparedData, max_length: int) -> PreparedData:
    return replace(result, pairs=ShardedStore(result.train, max_length))


def test_long_pairs_are_left_out_of_training(run: RunDirectory) -> None:
    _, result = prepared(run, lengths((3, 3), (4, 1), (1, 4), (2, 1)))
    shards = short_pairs(result, 3).pairs
    assert (shards.num_pairs, shards.num_shards) == (2, 1)
    assert ids(shards.draw(0, 1, 0).src) == [[4, 4, 4], [4, 4]]
    assert ids(shards.draw(0, 1, 0).tgt) == [[4, 4, 4], [4]]


def test_text_of_long_pairs_alone_is_refused(run: RunDirectory) -> None:
    _, result = prepared(run, lengths((4, 1), (1, 4)))
    settings = {"data": {"kind": "toy"}, "tokenizer": WORDS, "training": {"max_length": 3}}
    config, cpu = Config.model_validate(settings), torch.device("cpu")
    with pytest.raises(CorpusError, match=r"training\.max_length .3 tokens.[^\n]*raise it"):
        build_trainer(config, short_pairs(result, 3), run, cpu, torch.float32, SINGLE_PROCESS)


def test_tokenizers_record_what_a_model_has_to_learn(run: RunDirectory) -> None:
    numbers = [("1 2", "one two"), ("2", "two")]
    assert prepared(run, numbers, numbers)[1].tokenizers.letterless
    names = [("Oslo", "Oslo"), ("Rom", "Rom")]
    further = RunDirectory(run.path.with_name("further"))
    tokenizers = prepared(further, names, names, init=run)[1].tokenizers
    assert (tokenizers.letterless, tokenizers.copied) == (False, True)
    assert have_same_tokenizers(run.tokenizer, further.tokenizer)
