"""Tables, and the places of cleaned text, that cannot be used."""

from pathlib import Path

import pytest
from cli.process import assert_refused, run


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-i", "in.txt", "-o", "out.tsv"], "-o out.tsv: plain text is not a table"),
        (["-i", "in.txt", "-o", "out.jsonl"], "-o out.jsonl: plain text is not a table"),
        (
            ["-i", "in.jsonl", "--src-field", "t", "-o", "out.tsv"],
            "-o: rows of in.jsonl are written as JSONL; give a name that ends with .jsonl",
        ),
        (
            ["-i", "in.parquet", "--src-field", "t"],
            "in.parquet: Parquet can only be read as a corpus; save it as JSONL",
        ),
    ],
)
def test_text_and_tables_are_told_apart(tmp_path: Path, options: list[str], told: str) -> None:
    for name in ("in.txt", "in.jsonl", "in.parquet"):
        (tmp_path / name).write_text('{"t": "1"}\n' if name == "in.jsonl" else "1\n")
    assert_refused(run("translate", "run", *options, cwd=tmp_path), 2, told)


def test_the_working_directory_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "my.yaml").write_text(
        "data: {kind: corpus, src_lang: de, tgt_lang: en, split: {val: 1}, sources: "
        "[{tsv: x.tsv, src_column: 1, tgt_column: 2}]}\ntokenizer: {kind: words}\n"
    )
    refused = run("clean", "../my.yaml", "-o", ".", cwd=tmp_path / "here")
    assert_refused(refused, 2, ".: cannot be replaced; give the name of a new directory in it")
