"""Pairs of ``data.more``, trained on beside those of the corpus."""

from pathlib import Path

import pytest
from prepared_text import TRAIN, VAL, WORDS, Pairs, ids, prepared, stored, write
from texts import read_texts

from transformer_cli.base.errors import CorpusError, RunError
from transformer_cli.config.schema import Config
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.text.tokenizer import load_manifest
from transformer_cli.training.summary import summarize_sides


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


MORE: list[Pairs] = [[("b d", "w"), ("a", " ")], [("e", "y z")]]


def write_all(run: RunDirectory, texts: list[Pairs]) -> list[dict[str, str]]:
    return [write(run.path.parent, f"more-{n}", pairs) for n, pairs in enumerate(texts)]


def test_added_pairs_are_trained_on_like_the_corpus_own(run: RunDirectory) -> None:
    texts, result = prepared(run, more=write_all(run, MORE))
    assert (texts.train.stats.blank, len(texts.train)) == (3, 5)
    assert list(texts.train.src) == ["a b c", "a b", "a d", "b d", "e"]
    assert list(texts.train.tgt) == ["x y", "x", "x y z w v", "w", "y z"]
    # a and b 3 times, d 2 times; x and y 3 times, z and w 2 times.
    assert ids(stored(result).src) == [[4, 5, 0], [4, 5], [4, 6], [5, 6], [0]]
    rows = {name: sides for name, *sides in summarize_sides(run.load_config(), result)}
    assert rows["lines"] == ["5", "5"]


def test_another_added_text_is_another_training_text(run: RunDirectory) -> None:
    prepared(run, more=write_all(run, MORE))
    known = load_manifest(run.tokenizer).learned_from
    changed = [MORE[0], [("e e", "y z")]]
    _, result = prepared(run, more=write_all(run, changed))
    assert load_manifest(run.tokenizer).learned_from != known
    assert ids(stored(result).src)[-1] == [7, 7]  # e is seen twice now
    (run.checkpoints / "step-00000001").mkdir()
    with pytest.raises(RunError, match=f"^{run.path}: the training text has changed"):
        prepared(run, more=write_all(run, MORE))
    prepared(run, more=write_all(run, changed))


@pytest.mark.parametrize("whole", [MORE[:1], []])
def test_misaligned_or_missing_added_files_are_refused(tmp_path: Path, whole: list[Pairs]) -> None:
    own, *more = (write(tmp_path, str(n), pairs) for n, pairs in enumerate([TRAIN, *whole, VAL]))
    data = {"kind": "files", "src_lang": "xx", "tgt_lang": "xx", "train": own, "val": own}
    settings = {"data": {**data, "more": more}, "tokenizer": WORDS}
    config = Config.model_validate(settings)
    src, tgt = (Path(more[-1][side]) for side in ("src", "tgt"))
    tgt.write_text("one\n")
    with pytest.raises(CorpusError, match=f"^{src} has 3 lines but {tgt} has 1;"):
        read_texts(config.data)
    tgt.unlink()
    with pytest.raises(CorpusError, match=f"^{tgt}: there is no such file"):
        read_texts(config.data)
