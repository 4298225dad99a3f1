"""Breaches of what settings of corpora may be, as one line."""

from pathlib import Path

import pytest
from validating import refusal as refusal_of, validate

from transformer_cli.base.errors import ConfigError
from transformer_cli.extensions.corpora.settings import find_more


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("kind: toy\n  more: 3", "more: expected a list, found 3"),
        ("kind: toy\n  more: [a]", "more[0]: expected keys and values, found the text 'a'"),
        ("kind: toy\n  more: [{src: a}]", "more[0].tgt: missing (path of the target side)"),
        ("kind: multi30k\n  more: [{src: 3, tgt: b}]", "more[0].src: expected a path, found 3"),
        ("kind: toy\n  more: [{src: a, tgt: b, by: c}]", "more[0].by: unknown key"),
        ("kind: toy\n  replay: null", "replay: unknown key for kind 'toy'"),
        (
            "kind: files\n  replay: {share: 0.5, sources: [{src: a, tgt: b, split: false}]}\n"
            "  src_lang: de\n  tgt_lang: en\n  train: {src: a, tgt: b}\n  val: {src: a, tgt: b}",
            "replay.sources[0].split: is for data.sources of kind corpus; remove it",
        ),
        (
            "kind: corpus\n  test: {a b: {src: a, tgt: b}}\n  src_lang: de\n  tgt_lang: en\n"
            "  split: {val: 1}\n  sources: [{src: a, tgt: b}]",
            "test.'a b': files are named after it; use only letters, digits, - and _",
        ),
    ],
)
def test_wrong_added_pairs(data: str, message: str) -> None:
    refusal = refusal_of(f"data:\n  {data}\ntokenizer: {{kind: words}}\n")
    assert refusal.startswith(f"x.yaml:3: data.{message}")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Train", "the name 'train' is taken"),
        ("VAL", "the name 'val' is taken"),
        ("Test", "the name 'test' is taken"),
        ("NEWS", "the name 'news' is taken"),
        ("con", "files are named after it, but Windows does not allow this name"),
        ("Lpt1", "files are named after it, but Windows does not allow this name"),
    ],
)
def test_splits_have_files_on_all_systems(name: str, problem: str) -> None:
    text = (
        "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n  sources: [{src: a, tgt: b}]\n"
        "  split: {val: 1, test: 1}\n  test:\n    news: {src: a, tgt: b}\n"
    )
    validate(f"{text}tokenizer: {{kind: words}}\n")
    refusal = refusal_of(f"{text}    {name}: {{src: a, tgt: b}}\ntokenizer: {{kind: words}}\n")
    assert refusal == f"x.yaml:9: data.test.{name}: {problem}; use another name"


@pytest.mark.parametrize("key", ["filters: [length]", "weight: 2", "split: false"])
def test_splits_that_are_given_are_whole(key: str) -> None:
    source = "{{tsv: a.tsv, src_column: 1, tgt_column: 2{}}}"
    said = refusal_of(
        "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n"
        f"  sources: [{source.format('')}]\n  val: {source.format(f', {key}')}\n"
        "tokenizer: {kind: words}\n"
    )
    assert f"data.val.{key.partition(':')[0]}: is for data.sources" in said


@pytest.mark.parametrize("column", ["1.5", "0", "-1", "true"])
def test_a_column_that_can_not_be_is_told_once(column: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(
            "data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n"
            f"  sources: [{{tsv: a.tsv, src_column: {column}, tgt_column: 2}}]\n"
            "  split: {val: 1}\ntokenizer: {kind: words}\n"
        )
    wanted = "data.sources[0].src_column: expected the number of a column, from 1, or its name"
    assert f"{wanted}, found {column}" in str(caught.value)
    assert not caught.value.others


@pytest.mark.parametrize(
    ("source", "message"),
    [
        *(
            (
                name,
                f"data.sources[0]: expected keys and values, found the text '{name}'; write {as_}",
            )
            for name, as_ in (
                ("*.po.gz", "{po: *.po.gz}"),
                ("a.TMX", "{tmx: a.TMX}"),
                ("a.tsv", "{tsv: a.tsv, src_column: 1, tgt_column: 2}"),
                ("a.jsonl.zst", "{jsonl: a.jsonl.zst, src_field: NAME, tgt_field: NAME}"),
                ("a.de", "{src: a.de, tgt: FILE}"),
                ("a b.de", "{src: FILE, tgt: FILE}"),
            )
        ),
    ],
)
def test_a_source_that_is_a_bare_path_is_answered_with_an_example(
    source: str, message: str
) -> None:
    shown = source if source.startswith("{") else f"'{source}'"
    refusal = refusal_of(
        f"data:\n  kind: corpus\n  src_lang: de\n  tgt_lang: en\n  sources: [{shown}]\n"
        "  split: {val: 1}\ntokenizer: {kind: words}\n"
    )
    assert refusal == f"x.yaml:5: {message}"


def test_paths_of_added_pairs_start_here() -> None:
    config = validate(
        "data: {kind: toy, more: [{src: a, tgt: ~/b}, {src: /c, tgt: d}]}\n"
        "tokenizer: {kind: words}\n"
    )
    assert [(pair.src, pair.tgt) for pair in find_more(config.data)] == [
        (Path.cwd() / "a", Path.home() / "b"),
        (Path("/c"), Path.cwd() / "d"),
    ]
