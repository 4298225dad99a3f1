"""Preparing: every pair of every source is in a split or counted as left out, and only once."""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings, strategies as st

from transformer_cli.base.errors import ConfigError, CorpusError
from transformer_cli.data.corpus import StreamedText
from transformer_cli.extensions.corpora import preparing
from transformer_cli.extensions.corpora.prepared import (
    SourcesKind,
    describe_record,
    find_damage,
    read_corpus_record,
    split_path,
)
from transformer_cli.extensions.corpora.preparing import (
    DROPPED,
    clean_corpus,
    is_prepared,
    prepare_corpus,
)
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.corpora.tagged_line import TaggedLine

Pairs = list[tuple[str, str]]


def write(directory: Path, name: str, pairs: Pairs) -> dict[str, Any]:
    for side in (0, 1):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        (directory / f"{name}.{side}").write_text(lines, encoding="utf-8")
    return {"src": str(directory / f"{name}.0"), "tgt": str(directory / f"{name}.1")}


def corpus(sources: list[dict[str, Any]], **settings: Any) -> CorpusData:
    split = {} if "val" in settings else {"split": {"val": 3, "test": 2}}
    return CorpusData.model_validate(
        {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": sources}
        | split
        | settings
    )


class DroppedPair(NamedTuple):
    number: int
    source: str
    reason: str
    src: str
    tgt: str


def prepare(data: CorpusData, directory: Path) -> tuple[dict[str, Pairs], list[DroppedPair]]:
    prepare_corpus(data, directory)
    names = sorted(path.stem for path in directory.glob("*.src"))
    splits = {name: [*SourcesKind(data).read_split(name, directory).pairs()] for name in names}
    with tempfile.TemporaryDirectory() as cleaned:
        clean_corpus(data, Path(cleaned) / "c")
        _, *rows = (Path(cleaned) / "c" / DROPPED).read_text(encoding="utf-8").split("\n")[:-1]
    dropped = (row.split("\t") for row in rows)
    return splits, [DroppedPair(int(number), *cells) for number, *cells in dropped]


def numbered(first: int, end: int) -> Pairs:
    return [(f"Satz {n}", f"sentence {n}") for n in range(first, end)]


def test_every_pair_is_somewhere(tmp_path: Path) -> None:
    first, second = numbered(0, 40), [*numbered(30, 60), ("", "blank"), ("blank", " ")]
    data = corpus([write(tmp_path, "a", first), write(tmp_path, "b", second)])
    splits, dropped = prepare(data, tmp_path / "corpus")
    assert {name: len(pairs) for name, pairs in splits.items()} == {
        "train": 55,
        "val": 3,
        "test": 2,
    }
    found = Counter(pair for pairs in splits.values() for pair in pairs)
    assert found == Counter(numbered(0, 60))
    assert Counter((each.source, each.reason) for each in dropped) == {
        ("sources[1] b.0", "duplicates"): 10,
        ("sources[1] b.0", "blank"): 2,
    }
    every = [*first, *second]
    assert all((each.src, each.tgt) == every[each.number - 1] for each in dropped)
    # The pairs of a split are in the order of the sources.
    assert splits["train"] == [pair for pair in numbered(0, 60) if pair in splits["train"]]


def test_the_record_says_what_became_of_each_source(tmp_path: Path) -> None:
    sources = [write(tmp_path, "a", numbered(0, 40)), write(tmp_path, "b", numbered(30, 60))]
    prepare(corpus(sources), tmp_path / "corpus")
    record = read_corpus_record(tmp_path / "corpus")
    assert record is not None
    assert [source.pairs for source in record.sources] == [40, 30]
    for source in record.sources:
        assert sum(source.kept.values()) + sum(source.removed.values()) == source.pairs


def test_the_first_unit_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    lines = [f"a {number}\tb {number}" for number in range(300)]
    lines[7] = "a"
    path = tmp_path / "x.tsv"
    path.write_text("\n".join(lines))
    table = {"tsv": str(path), "src_column": 1, "tgt_column": 2}
    record = prepare_corpus(corpus([table], test={"t": table}), tmp_path / "c")
    why = f"1 unreadable ({path}:8: 1 column; there is no column 2)"
    assert [line.partition("left out: ")[2] for line in describe_record(record)] == [why]


def test_a_source_has_filters_of_its_own(tmp_path: Path) -> None:
    again = numbered(0, 20)
    sources = [write(tmp_path, "a", again), write(tmp_path, "b", again) | {"filters": []}]
    splits, _ = prepare(corpus(sources, filters=["duplicates"]), tmp_path / "corpus")
    # Nothing is trained on that shares a side with what is held out.
    assert Counter(splits["train"]) == dict.fromkeys(splits["train"], 2)
    sources[1]["filters"] = ["duplicates"]
    splits, _ = prepare(corpus(sources, filters=[]), tmp_path / "other")
    assert Counter(splits["train"]) == dict.fromkeys(splits["train"], 1)


def test_pairs_that_share_a_side_with_what_is_held_out_are_left_out(tmp_path: Path) -> None:
    pairs = [(f"Satz {n % 12}", f"sentence {n}") for n in range(48)]
    splits, dropped = prepare(corpus([write(tmp_path, "a", pairs)]), tmp_path / "corpus")
    held_out = {src for name in ("val", "test") for src, _ in splits[name]}
    assert len(held_out) == 5
    assert not held_out & {src for src, _ in splits["train"]}
    assert [each.reason for each in dropped] == ["held_out"] * (5 * 3)


def test_a_source_may_be_only_for_training(tmp_path: Path) -> None:
    sources = [write(tmp_path, "a", numbered(0, 10)), write(tmp_path, "b", numbered(10, 90))]
    splits, _ = prepare(corpus([sources[0], sources[1] | {"split": False}]), tmp_path / "corpus")
    assert {*splits["val"], *splits["test"]} <= {*numbered(0, 10)}


def test_each_held_out_pair_has_the_tag_of_its_source(tmp_path: Path) -> None:
    sources = [
        write(tmp_path, "a", numbered(0, 30)) | {"tag": "news"},
        write(tmp_path, "b", [(f"{src}!", f"{tgt}!") for src, tgt in numbered(30, 60)]),
    ]
    data = corpus(sources, split={"val": 20})
    prepare(data, tmp_path / "corpus")
    text = SourcesKind(data).read_split("val", tmp_path / "corpus")
    tags = [src.tag for src in text.src if isinstance(src, TaggedLine)]
    assert [None if src.endswith("!") else "news" for src in text.src] == tags
    assert {*tags} == {"news", None}


def test_given_splits_are_read_where_they_lie(tmp_path: Path) -> None:
    train, val = write(tmp_path, "a", numbered(0, 9)), write(tmp_path, "v", numbered(9, 12))
    table = tmp_path / "t.tsv"
    table.write_text("\ufeffa\tb\nc\td\r\n")
    more = {"tsv": str(table), "src_column": 1, "tgt_column": 2, "tag": "news"}
    data = corpus([train], val=val, test={"more": more})
    splits, _ = prepare(data, tmp_path / "corpus")
    assert splits == {"train": numbered(0, 9)}
    kind = SourcesKind(data)
    assert [*kind.read_split("val", None).pairs()] == numbered(9, 12)
    test = kind.read_split("more", tmp_path / "corpus")
    assert [*test.pairs()] == [("a", "b"), ("c", "d")]
    assert [src.tag for src in test.src if isinstance(src, TaggedLine)] == ["news", "news"]
    write(tmp_path, "v", numbered(30, 35))
    assert [*kind.read_split("val", tmp_path / "corpus").pairs()] == numbered(30, 35)


def test_what_changes_the_sources_is_noticed(tmp_path: Path) -> None:
    data = corpus([write(tmp_path, "a", numbered(0, 40))])
    prepare(data, tmp_path / "corpus")
    assert is_prepared(data, tmp_path / "corpus")
    write(tmp_path, "a", numbered(0, 41))
    assert not is_prepared(data, tmp_path / "corpus")
    (tmp_path / "corpus" / "sources.json").write_text("{}")
    assert not is_prepared(data, tmp_path / "corpus")


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    data = corpus([write(tmp_path, "a", numbered(0, 4))])
    with pytest.raises(ConfigError, match=r"data\.split: asks for 3 pairs for val and 2 for test"):
        prepare(data, tmp_path / "corpus")
    with pytest.raises(CorpusError, match="no pair is left"):
        prepare(
            corpus([write(tmp_path, "b", [("", "")])], val=write(tmp_path, "v", numbered(0, 2))),
            tmp_path / "corpus",
        )
    assert not [path for path in tmp_path.iterdir() if "corpus" in path.name]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("sources", "no field 'eng'; did you mean 'en'?"),
        ("val", "no field 'eng'; did you mean 'en'?"),
        ("test", "nowhere: there is no such file"),
    ],
)
def test_a_wrong_name_is_found_before_the_text_is_read(
    tmp_path: Path, wrong: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"de": "a", "en": "b"}\n' * 200)
    good = {"jsonl": str(path), "src_field": "de", "tgt_field": "en"}
    bad = {**good, "tgt_field": "eng"}
    lost = {**good, "jsonl": str(tmp_path / "nowhere")}
    data = corpus(
        [good, bad if wrong == "sources" else good],
        val=bad if wrong == "val" else good,
        test={"t": lost if wrong == "test" else good},
    )

    def progress(pairs: Iterable[tuple[str, str]], name: str, unit: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(preparing, "show_progress", progress)
    with pytest.raises(CorpusError, match=re.escape(told)):
        prepare_corpus(data, tmp_path / "corpus")


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    data = corpus([write(tmp_path, "a", numbered(0, 50)) | {"weight": 2}])
    sums = []
    for name in ("one", "two"):
        prepare(data, tmp_path / name)
        files = sorted((tmp_path / name).glob("*.*"))
        sums.append({file.name: file.read_bytes() for file in files if file.suffix != ".json"})
    assert sums[0] == sums[1]
    assert len(sums[0]) == 6


def test_lost_and_changed_files_are_noticed(tmp_path: Path) -> None:
    data = corpus([write(tmp_path, "a", numbered(0, 40))])
    prepare(data, tmp_path / "corpus")
    record = read_corpus_record(tmp_path / "corpus")
    assert record is not None
    assert len(record.files) == 6
    assert find_damage(tmp_path / "corpus", record) is None
    file, val = tmp_path / "corpus" / "train.tgt", tmp_path / "corpus" / "val.tgt"
    text, val_text = file.read_text(), val.read_text()
    file.write_text(text[:-1])
    assert find_damage(tmp_path / "corpus", record) == f"{file}: has changed since it was written"
    assert find_damage(tmp_path / "corpus", record, {"val", "test"}) is None
    file.write_text(text.replace("sentence", "SENTENCE"))  # its sum is compared by who trains on it
    assert find_damage(tmp_path / "corpus", record) is None
    for changed in (val_text[:-1], val_text.replace("sentence", "SENTENCE")):
        val.write_text(changed)
        assert find_damage(tmp_path / "corpus", record, {"val", "test"}) == (
            f"{val}: has changed since it was written"
        )
    val.write_text(val_text)
    file.unlink()
    assert find_damage(tmp_path / "corpus", record) == f"{file}: is missing"


odd_sides = st.text(st.sampled_from("ab \ufeff\r\u00a0\u2003\f\u0085\u2028\x1c\u200b"), max_size=5)


@settings(max_examples=15)
@example([("\ufeff", "x"), ("\ufeff\ufeff \r", "x")])
@given(st.lists(st.tuples(odd_sides, odd_sides), max_size=6))
def test_the_record_counts_the_pairs_that_training_sees(pairs: Pairs) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        lines = [json.dumps({"de": src, "en": tgt}) for src, tgt in [*pairs, ("a", "b")]]
        (directory / "a.jsonl").write_text("\n".join(lines))
        source = {"jsonl": str(directory / "a.jsonl"), "src_field": "de", "tgt_field": "en"}
        data = corpus([source], val=source, filters=[])
        record = prepare_corpus(data, directory / "corpus")
        text = StreamedText.of(split_path(directory / "corpus", "train"))
        assert record.sources[0].kept["train"] == len(text)
        assert text.stats.blank == 0


def test_where_nothing_is_left_the_filter_that_took_most_is_named(tmp_path: Path) -> None:
    source = write(tmp_path, "a", [("", "x"), ("x", ""), ("same words " * 3, "same words " * 3)])
    for own in ({"split": {"val": 1}}, {"val": source}):
        with pytest.raises(CorpusError, match="of 3, 2 were rejected by 'blank'"):
            prepare(corpus([source], filters=["identical"], **own), tmp_path / "corpus")
