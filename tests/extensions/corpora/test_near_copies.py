"""Near-copies are found wherever they lie, and are kept apart where that is asked for."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from transformer_cli.base.workers import SerialExecutor
from transformer_cli.extensions.checks import near_copies
from transformer_cli.extensions.checks.near_copies import (
    NEAR,
    HeldOutPairs,
    Samples,
    cut_held_out,
)
from transformer_cli.extensions.corpora import preparing
from transformer_cli.extensions.corpora.checked_corpus import CheckedCorpus
from transformer_cli.extensions.corpora.prepared import split_path
from transformer_cli.extensions.corpora.preparing import prepare_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.processes.spawning import open_pool

Pairs = list[tuple[str, str]]
LANGUAGES = ("de", "en")

sides = st.lists(st.sampled_from(["tom", "Tom", "ist", "müde", ".", "7"]), max_size=6).map(" ".join)
some_pairs = st.lists(st.tuples(sides, sides), max_size=12)


def similarity(one: tuple[str, str], other: tuple[str, str]) -> float:
    """Dice's coefficient, of the definition."""
    first, second = (
        {(side, word) for side in (0, 1) for word in re.findall(r"\w+", pair[side].lower())}
        for pair in (one, other)
    )
    return 2 * len(first & second) / max(len(first) + len(second), 1)


@pytest.mark.long
@settings(deadline=None)
@given(some_pairs, some_pairs)
@example([("a " * 9, " ".join(map(str, range(300))))], [("b", " ".join(map(str, range(290))))])
def test_similarity_is_the_share_of_words_in_common(held_out: Pairs, text: Pairs) -> None:
    looked_for = HeldOutPairs(held_out, LANGUAGES)
    expected = [[similarity(one, other) for other in held_out] for one in text]
    nearest = looked_for.find_nearest(text)
    assert nearest.tolist() == pytest.approx(np.max([[0.0] * len(held_out), *expected], axis=0))
    is_near = looked_for.find_near(text)
    assert is_near.tolist() == [any(each > NEAR - 1e-9 for each in row) for row in expected]


def test_marks_are_parts_of_words(tmp_path: Path) -> None:
    # Without its marks, each would be the consonants ह, न and द.
    looked_for = HeldOutPairs([("हिन्दी", "x")], ("hi", "en"))
    (near,) = looked_for.find_nearest([("हुन्दू", "y")])
    assert near == 0


def test_of_text_without_spaces_two_letters_are_a_word() -> None:
    looked_for = HeldOutPairs([("彼は昨日東京に行った", "he went to Tokyo")], ("ja", "en"))
    (near,) = looked_for.find_nearest([("彼は昨日京都に行った", "he went to Kyoto")])
    assert near == pytest.approx(2 * (6 + 3) / (9 + 4 + 9 + 4))


def test_a_long_pair_does_not_make_a_large_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_copies, "_TABLE_BYTES", 30_000)
    pairs = [(f"Satz {n}", f"sentence {n}") for n in range(60)]
    pairs[40] = (" ".join(map(str, range(300))), "300")
    whole = HeldOutPairs(pairs, LANGUAGES)
    assert whole._has.dtype == np.uint16
    tables = [HeldOutPairs(pairs[some], LANGUAGES) for some in cut_held_out(pairs, LANGUAGES)]
    assert len(tables) > 1
    assert max(table._has.nbytes for table in tables) <= 30_000 < whole._has.nbytes
    text = [("Satz 1", "sentence 2"), *pairs[38:42]]
    nearest = np.concatenate([table.find_nearest(text) for table in tables])
    assert nearest.tolist() == whole.find_nearest(text).tolist()
    # Of a split, fewer are compared then.
    samples = Samples({"val": pairs}, LANGUAGES)
    assert samples.held_out._has.nbytes <= 30_000
    samples.compare(text)
    assert samples.conclude()[0].compared < len(pairs)


SUBJECTS = [("Tom", "Tom"), ("Maria", "Mary"), ("Ken", "Ken"), ("Anna", "Ann")]


def families(count: int) -> Pairs:
    """Sentences that differ in who it is, and beside those as many that are like no other."""
    near = [
        (
            f"{de} hat gestern Wort{n} und Ding{n} gesehen",
            f"{en} saw word{n} and thing{n} yesterday",
        )
        for n in range(count)
        for de, en in SUBJECTS
    ]
    apart = [
        (" ".join(f"w{n}x{k}" for k in range(6)), " ".join(f"v{n}x{k}" for k in range(6)))
        for n in range(4 * count)
    ]
    return near + apart


def drawn(directory: Path, near: str | None, pairs: Pairs) -> CorpusData:
    for side, name in enumerate(("a.de", "a.en")):
        (directory / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return CorpusData.model_validate(
        {
            "kind": "corpus",
            "src_lang": "de",
            "tgt_lang": "en",
            "sources": [{"src": str(directory / "a.de"), "tgt": str(directory / "a.en")}],
            "split": {"val": 10, "test": 20, "near": near},
        }
    )


def prepare(directory: Path, near: str | None, workers: int) -> dict[str, Pairs]:
    pairs = families(40)
    data = drawn(directory, near, pairs)
    made = directory / f"{near}-{workers}"
    with open_pool(workers) if workers > 1 else SerialExecutor() as executor:
        record = prepare_corpus(data, made, executor)
    splits = {name: list(split_path(made, name).pairs()) for name in ("train", "val", "test")}
    (source,) = record.sources
    assert source.removed.get("held_out", 0) == len(pairs) - sum(map(len, splits.values()))
    return splits


@pytest.mark.long
def test_apart_means_that_nothing_near_is_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prepare(tmp_path, "apart", 1)
    usual = prepare(tmp_path, None, 1)
    assert (whole["val"], whole["test"]) == (usual["val"], usual["test"])
    held_out = whole["val"] + whole["test"]
    cut = [
        pair for pair in usual["train"] if any(similarity(pair, each) >= NEAR for each in held_out)
    ]
    # No more is left out than what is near.
    assert cut
    assert whole["train"] == [pair for pair in usual["train"] if pair not in cut]
    monkeypatch.setattr(near_copies, "MAX_HELD_OUT", 7)
    assert prepare(tmp_path, "apart", 2) == whole
    monkeypatch.setattr(preparing, "PART_PAIRS", 37)
    monkeypatch.setattr(preparing, "MIN_BYTES_FOR_WORKERS", 0)
    assert prepare(tmp_path, "apart", 3) == whole


def test_what_is_kept_apart_is_told_so(tmp_path: Path) -> None:
    usual, apart = (drawn(tmp_path, each, families(10)) for each in (None, "apart"))
    assert CheckedCorpus(usual).advise_near("val") == (
        "; to leave the copies out of training, set data.split: {near: apart}"
    )
    assert "they are in data.replay" in CheckedCorpus(apart).advise_near("val")
