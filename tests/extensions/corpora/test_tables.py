"""``translate`` of tables."""

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Training
from cli.process import assert_refused, run
from cli.test_translate_forms import killed_at_the_last_line

TEXTS = ["1 2 3 4", "", "4 3 2 1", "5 5"]
NOTES = ['"a', "b\u2028", " ", "ü"]
TSV = "text\tnote\n" + "".join(f"{text}\t{note}\n" for text, note in zip(TEXTS, NOTES, strict=True))
RECORDS = [{"note": note, "text": text} for text, note in zip(TEXTS, NOTES, strict=True)]
JSONL = "".join(json.dumps(record) + "\n" for record in RECORDS)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    (tmp_path / "in.tsv").write_text(TSV, encoding="utf-8")
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(JSONL.encode()))
    return tmp_path


@pytest.fixture(scope="module")
def expected(training: Training) -> list[str]:
    """The translations of the texts as lines."""
    stdin = "".join(f"{text}\n" for text in TEXTS).encode()
    return run("translate", training.run, stdin=stdin).out.splitlines()


def translate(training: Training, here: Path, *options: str | Path, stdin: bytes = b"") -> str:
    finished = run("translate", training.run, *options, cwd=here, stdin=stdin)
    assert finished.err == ""
    assert finished.code == 0
    return finished.out


def as_tsv(expected: list[str]) -> str:
    translations = ["translation", *expected]
    lines = zip(TSV.split("\n")[:-1], translations, strict=True)
    return "".join(f"{line}\t{translation}\n" for line, translation in lines)


def parse(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.split("\n")[:-1]]


def test_a_table_gets_a_column(training: Training, here: Path, expected: list[str]) -> None:
    translate(training, here, "-i", "in.tsv", "--src-column", "text", "-o", "out.tsv.gz")
    found = gzip.decompress((here / "out.tsv.gz").read_bytes()).decode()
    assert found == as_tsv(expected)
    streamed = translate(training, here, "--src-column", "text", stdin=TSV.encode())
    assert streamed == found


def test_records_get_a_field(training: Training, here: Path, expected: list[str]) -> None:
    rows = zip(RECORDS, expected, strict=True)
    whole = [{**record, "translation": translation} for record, translation in rows]
    found = translate(training, here, "-i", "in.jsonl.gz", "--src-field", "text")
    assert parse(found) == whole
    assert translate(training, here, "--src-field", "text", stdin=JSONL.encode()) == found
    scored = translate(training, here, "-i", "in.jsonl.gz", "--src-field", "text", "--scores")
    assert [record["translation"][0]["text"] for record in parse(scored)] == expected


def test_an_interrupted_table_goes_on(training: Training, here: Path, expected: list[str]) -> None:
    options = ["-i", "in.tsv", "--src-column", "text", "-o", "out.tsv"]
    go_on = partial(run, "translate", training.run, cwd=here)
    assert go_on(*options, before=killed_at_the_last_line).code == -9
    (here / "in.tsv").write_text(TSV.replace('"a', "a"), encoding="utf-8")
    assert "lines of the input have changed" in go_on(*options, before=killed_at_the_last_line).err
    (here / "in.tsv").write_text(TSV, encoding="utf-8")
    other = go_on(*options[:3], "1", *options[4:], before=killed_at_the_last_line)
    assert "src_column was text, now 1" in other.err
    assert go_on(*options, before=killed_at_the_last_line).code == -9
    finished = go_on(*options)
    assert (finished.code, finished.err) == (0, "")
    assert (here / "out.tsv").read_text(encoding="utf-8") == as_tsv(expected)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["-i", "in.tsv"],
            2,
            "in.tsv: is a table; name the column or field with its text by --src-column N|NAME",
        ),
        (
            ["-i", "IN.TSV"],
            2,
            "IN.TSV: is a table; name the column or field with its text by --src-column N|NAME",
        ),
        (["-i", "in.tsv", "--src-column", "3"], 1, "there is no column 3; correct or remove"),
        (
            ["-i", "in.tsv", "--src-column", "1", "-o", "o.jsonl"],
            2,
            "-o: rows of in.tsv are written as TSV",
        ),
        (["-i", "in.tsv", "--src-column", "1", "--scores"], 2, "which TSV cannot hold"),
        (["-i", "in.txt", "--src-field", "x"], 1, "in.txt:1: invalid JSON"),
    ],
)
def test_what_cannot_be_is_refused(
    training: Training, here: Path, options: list[str], code: int, message: str
) -> None:
    assert_refused(run("translate", training.run, *options, cwd=here), code, message)
    assert not list(here.glob("o.*"))


@pytest.mark.parametrize("name", ["in.tsv", "in.jsonl.gz"])
def test_evaluate_does_not_take_a_table_for_lines(
    training: Training, here: Path, name: str
) -> None:
    refused = run("evaluate", training.run, "--src", name, "--ref", "in.txt", cwd=here)
    assert_refused(refused, 2, f"{name}: its lines are not sentences")
