"""A corpus is prepared to the same bytes, however its text is cut and whatever happens to tasks."""

import gzip
import json
import tempfile
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from transformer_cli.base.errors import ConfigError, CorpusError
from transformer_cli.base.workers import SerialExecutor
from transformer_cli.extensions.corpora import preparing
from transformer_cli.extensions.corpora.preparing import clean_corpus
from transformer_cli.extensions.corpora.settings import CorpusData
from transformer_cli.extensions.processes.spawning import open_pool

words = st.sampled_from(
    ["", "eins", "zwei", "EINS", "drei 3", "<b>vier</b>", "x" * 40, "\ufeff", "a\tb"]
)
pairs = st.lists(st.tuples(words, words), min_size=1, max_size=25)
FORMATS = ("text", "text.gz", "tsv", "named", "jsonl", "jsonl.gz")
FILTERS = ["identical", "markup", "numbers", "length", "length_ratio", "duplicates"]


def write(path: Path, kind: str, found: list[tuple[str, str]], damage: bool) -> dict[str, Any]:
    """Write a source, in a file or, of lines, two; return its settings."""
    packed = kind.endswith(".gz")
    ending = ".gz" if packed else ""

    def put(name: str, lines: list[str]) -> str:
        file = path.with_name(f"{path.name}.{name}{ending}")
        text = "".join(f"{line}\n" for line in lines).encode()
        file.write_bytes(gzip.compress(text) if packed else text)
        return str(file)

    if kind.startswith("text"):
        return {"src": put("de", [s for s, _ in found]), "tgt": put("en", [t for _, t in found])}
    if kind.startswith("jsonl"):
        rows = [json.dumps({"a": src, "b": tgt}) for src, tgt in found]
        settings: dict[str, Any] = {"src_field": "a", "tgt_field": "b"}
    else:
        cells = [[side.replace("\t", "\\") for side in pair] for pair in found]
        rows = [f"{src}\tignored\t{tgt}" for src, tgt in cells]
        settings = {"src_column": 1, "tgt_column": 3}
        if kind == "named":
            rows.insert(0, "one\ttwo\tthree")
            settings = {"src_column": "one", "tgt_column": "three"}
    rows += ["damaged"] * damage
    return {kind.partition(".")[0].replace("named", "tsv"): put("x", rows), **settings}


def clean(data: CorpusData, directory: Path, executor: Executor) -> dict[str, Any]:
    """What is written, or the error."""
    try:
        clean_corpus(data, directory, executor)
    except (ConfigError, CorpusError) as error:
        return {"error": str(error)}
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    assert [path.name for path in directory.iterdir() if path.is_dir()] == []
    return files


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(FORMATS), pairs, st.booleans(), st.booleans()),
        min_size=1,
        max_size=3,
    ),
    st.sets(st.sampled_from(FILTERS)),
    st.integers(1, 4),
    st.booleans(),
)
def test_however_it_is_cut_the_same_bytes_come_out(
    sources: list[tuple[str, list[tuple[str, str]], bool, bool]],
    filters: set[str],
    part_pairs: int,
    is_split: bool,
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        configured = [
            write(Path(name) / str(number), kind, found, damage)
            | {"split": may_hold_out}
            | ({} if number else {"filters": ["duplicates", "numbers"]})
            for number, (kind, found, damage, may_hold_out) in enumerate(sources)
        ]
        given_val = {"val": write(Path(name) / "v", "text", [("a", "b")], False)}
        data = CorpusData.model_validate(
            {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "sources": configured}
            | {"filters": sorted(filters), "max_bad_units": 0.2}
            | ({"split": {"val": 1, "test": 1}} if is_split else given_val)
        )
        whole = clean(data, Path(name) / "whole", SerialExecutor())
        patch.setattr(preparing, "PART_PAIRS", part_pairs)
        assert clean(data, Path(name) / "cut", SerialExecutor()) == whole


@pytest.mark.long
def test_a_damaged_file_of_many_is_an_error_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        rows = [f"Satz {number} {n}\tsentence {number} {n}" for n in range(100)]
        (tmp_path / f"{number}.tsv").write_text("".join(f"{row}\n" for row in rows))
    with (tmp_path / "1.tsv").open("r+") as file:
        file.seek(500)
        file.write("x" * (5 << 20))  # a line without end
        file.write("\na\tb\n" * 50)
    data = CorpusData.model_validate(
        {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "split": {"val": 2}}
        | {"sources": [{"tsv": str(tmp_path / "*.tsv"), "src_column": 1, "tgt_column": 2}]}
    )
    whole = clean(data, tmp_path / "whole", SerialExecutor())
    assert "1.tsv:22: the line is longer than 4 MiB" in whole["error"]
    monkeypatch.setattr(preparing, "PART_PAIRS", 7)
    assert clean(data, tmp_path / "cut", SerialExecutor()) == whole


def test_processes_write_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(f"Satz {n % 300}", f"sentence {n % 250}") for n in range(1000)]
    data = CorpusData.model_validate(
        {"kind": "corpus", "src_lang": "de", "tgt_lang": "en", "split": {"val": 9}}
        | {"sources": [write(tmp_path / "a", "text", found, False)]}
        | {"filters": FILTERS}
    )
    whole = clean(data, tmp_path / "whole", SerialExecutor())
    monkeypatch.setattr(preparing, "PART_PAIRS", 130)
    monkeypatch.setattr(preparing, "MIN_BYTES_FOR_WORKERS", 0)
    with open_pool(2) as executor:
        assert clean(data, tmp_path / "cut", executor) == whole
