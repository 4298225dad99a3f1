"""Rows of tables keep what they had, whatever it is."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from transformer_cli.base.errors import CorpusError, UsageError
from transformer_cli.extensions.corpora.rows import read_rows
from transformer_cli.extensions.corpora.tables import TextColumn, find_text

CELLS = st.text(st.characters(exclude_characters="\t\r\n", exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def written(
    data: bytes,
    where: TextColumn,
    translation: str = "new",
    is_json: bool = False,
) -> list[str]:
    rows = read_rows(where, io.BytesIO(data), "x", is_json=is_json)
    return [row.to_line(translation) for row in rows]


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1)
    )
)
def test_rows_of_tsv_get_a_column_and_keep_theirs(rows: list[list[str]]) -> None:
    rows[0][0] = "x" + rows[0][0]  # an empty file, or one of a byte order mark, has no row
    data = "".join("\t".join(row) + "\n" for row in rows).encode()
    where = TextColumn("tsv", len(rows[0]))
    assert written(data, where) == ["\t".join([*row, "new"]) for row in rows]


@pytest.mark.long
@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3)))
def test_records_get_a_field_and_keep_theirs(records: list[dict[str, Any]]) -> None:
    for record in records:
        record.pop("translation", None)
        record["a"] = {"b": "text\nof two lines", "c": "half a pair: \ud800"}
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    lines = written(data, TextColumn("jsonl", "a.b"))
    assert all(line.encode() and "\n" not in line for line in lines)
    for record in records:
        record["a"]["translation"] = "new"
    assert [json.loads(line) for line in lines] == records
    assert [list(json.loads(line)) for line in lines] == [list(record) for record in records]


NUMBERS = f"[1e400, 1e5, 1.10, -0, 0.12345678901234567890123, {'9' * 5000}]"


def test_numbers_stay_as_they_are_written() -> None:
    line = f'{{"de": "x", "n": {NUMBERS}, "t": "1.10", "half": "\\ud800"}}'
    where = TextColumn("jsonl", "de")
    assert written(line.encode(), where) == [f'{line[:-1]}, "translation": "new"}}']


def test_a_header_with_a_translation_is_refused_at_its_line() -> None:
    where = TextColumn("tsv", "de")
    for rows in (b"", b"a\tb\n"):
        with pytest.raises(CorpusError, match=r"^x:1: already has a column 'translation'"):
            written(b"de\ttranslation\n" + rows, where)


def test_rows_are_as_wide_as_the_first_line() -> None:
    data = b"id\ttext\tnote\n1\tx\n2\ty\tz\n"
    found = written(data, TextColumn("tsv", "text"), "one\ttwo")
    assert found == ["id\ttext\tnote\ttranslation", "1\tx\t\tone two", "2\ty\tz\tone two"]
    with pytest.raises(CorpusError, match=r"^x:2: 3 columns, .* has 2; correct or remove the row$"):
        written(b"1\tx\n2\ty\tz\n", TextColumn("tsv", 2))


def test_scores_are_objects_in_the_field() -> None:
    scored = '{"line": 1, "translations": [{"text": "new", "score": -1.5}]}'
    (line,) = written(b'{"de": "x"}', TextColumn("jsonl", "de"), scored, is_json=True)
    assert json.loads(line)["translation"] == [{"text": "new", "score": -1.5}]


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (
            b"a\tb\nc\n",
            TextColumn("tsv", 2),
            "x:2: 1 column; there is no column 2; correct or remove the row",
        ),
        (b"a\xff\n", TextColumn("tsv", 1), "x:1: not UTF-8"),
        (b"de\ttranslation\n", TextColumn("tsv", "de"), "x:1: already has a column 'translation'"),
        (b'{"de": "a"}\n{"de": }\n', TextColumn("jsonl", "de"), "x:2: invalid JSON at column 8 ("),
        (
            b'{"de": ""}\n{"en": "a"}\n',
            TextColumn("jsonl", "de"),
            "x:2: no field 'de'; there is 'en'; correct or remove the row",
        ),
        (
            b'{"de": null}\n',
            TextColumn("jsonl", "de"),
            "x:1: field 'de' is null, not text; correct or remove the row",
        ),
        (
            b"[1]",
            TextColumn("jsonl", "de"),
            "x:1: not a JSON object, but a list; correct or remove the row",
        ),
        (b'{"de": "a"}\n \n', TextColumn("jsonl", "de"), "x:2: is blank; remove the line"),
        (b"a\tb\n\n", TextColumn("tsv", 2), "x:2: is blank; remove the line, or fill in"),
        (
            b'{"de": "a", "in": [{"x": 1, "y": 2, "x": 3}]}',
            TextColumn("jsonl", "de"),
            "x:1: JSON that cannot be used: an object has field 'x' twice; correct",
        ),
        (
            b'{"de": "a", "x": [NaN]}',
            TextColumn("jsonl", "de"),
            "x:1: JSON that cannot be used: NaN is not JSON; correct",
        ),
        (b'{"de": 1.5}', TextColumn("jsonl", "de"), "x:1: field 'de' is a number, not text"),
        (
            b'{"translation": "a"}',
            TextColumn("jsonl", "translation"),
            "x:1: already has a field 'translation'",
        ),
    ],
)
def test_a_row_that_cannot_be_kept_is_an_error(
    data: bytes, where: TextColumn, message: str
) -> None:
    with pytest.raises(CorpusError) as raised:
        written(data, where)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "column", "field", "found"),
    [
        ("x.tsv.gz", "2", None, TextColumn("tsv", 2)),
        ("x.tsv", "de", None, TextColumn("tsv", "de")),
        ("-", "2", None, TextColumn("tsv", 2)),
        ("-", None, "de", TextColumn("jsonl", "de")),
        ("x.jsonl.xz", None, "de", TextColumn("jsonl", "de")),
    ],
)
def test_name_and_options_say_what_is_read(
    name: str, column: str | None, field: str | None, found: TextColumn
) -> None:
    assert find_text(Path(name), column, field) == found


@pytest.mark.parametrize(
    ("name", "column", "field", "message"),
    [
        (
            "x.tsv",
            None,
            None,
            r"^x.tsv: is a table; name the column or field with its text by --src-column N",
        ),
        ("x.jsonl", None, None, r"^x.jsonl: is a table; .* --src-field NAME"),
        ("x.jsonl", "1", None, r"^--src-column: is for TSV; x.jsonl needs --src-field NAME"),
        ("x.tsv", None, "de", r"^--src-field: is for JSONL; x.tsv needs --src-column"),
        ("x.tsv", "1", "de", r"leave one out"),
    ],
)
def test_options_that_do_not_fit_the_name(
    name: str, column: str | None, field: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        find_text(Path(name), column, field)
