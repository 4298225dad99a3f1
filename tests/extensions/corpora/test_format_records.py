import io
import re
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.base.errors import CorpusError
from transformer_cli.extensions.corpora.tables import (
    field_names,
    get_field,
    read_jsonl,
    read_parquet,
    read_tsv,
)
from transformer_cli.text.lines import MAX_LINE_BYTES


def test_a_table_keeps_its_columns_and_quotes() -> None:
    file = io.BytesIO('\ufeffid\tde\ten\r\n1\t"Ja."\tsaid ""yes""\r\n\n2\tnein'.encode())
    table = read_tsv(file, "x.tsv", ["en", 2])
    assert (table.header, table.indices) == (["id", "de", "en"], [2, 1])
    assert list(table.rows) == [(2, ["1", '"Ja."', 'said ""yes""']), (3, [""]), (4, ["2", "nein"])]


@pytest.mark.parametrize(
    ("data", "column", "message"),
    [
        (
            b"german\ten\n",
            "German",
            "x:1: the header has no column 'German'; did you mean 'german'?",
        ),
        (b"de\ten\n", "target", "x:1: the header has no column 'target'; there are 'de', 'en'"),
        (b"de\tde\n", "de", "x:1: the header has two columns 'de'; give their numbers"),
        (b"", "de", "x: is empty, but needs a header line"),
        (b"a\tb\n", 0, "x: no column 0; columns are numbered from 1"),
        (b"d\xff\n", "de", "x:1: not UTF-8"),
    ],
)
def test_columns_that_are_not_there(data: bytes, column: int | str, message: str) -> None:
    with pytest.raises(CorpusError) as raised:
        read_tsv(io.BytesIO(data), "x", [column])
    assert str(raised.value).startswith(message)


def test_a_line_without_end_is_refused() -> None:
    rows = read_tsv(io.BytesIO(b"a\tb\n" + b"a" * (MAX_LINE_BYTES + 1)), "x", [1]).rows
    assert next(rows) == (1, ["a", "b"])
    with pytest.raises(CorpusError, match=r"^x:2: the line is longer than 4 MiB"):
        next(rows)


def test_objects_are_read_on_after_a_damaged_one() -> None:
    lines = [
        b'{"de": {"text": "Ja", "n": [1.5]}}\r\n',
        b"\n",
        b"{",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'{"n": ' + b"9" * 5000 + b"}",
        b'{"a": 1}',
    ]
    found = [
        (number, str(record) if isinstance(record, CorpusError) else record)
        for number, record in read_jsonl(io.BytesIO(lines[0] + b"\n".join(lines[1:])), "x")
    ]
    assert found == [
        (1, {"de": {"text": "Ja", "n": [1.5]}}),
        (4, "x:4: invalid JSON at column 2 (Expecting property name enclosed in double quotes)"),
        (5, "x:5: not a JSON object, but a list"),
        (6, str(found[3][1])),
        (7, str(found[4][1])),
        (
            8,
            "x:8: JSON that cannot be used: Exceeds the limit (4300 digits) for integer string "
            "conversion",
        ),
        (9, {"a": 1}),
    ]
    assert str(found[3][1]).startswith("x:6: not UTF-8 (byte 0xff at column 1 of the line)")
    # Python 3.14 calls it a stack overflow, those before a recursion that is too deep.
    assert re.fullmatch(r"x:7: JSON that cannot be used: .+ while decoding .+", str(found[4][1]))


def test_fields_within_fields() -> None:
    record = {"id": 1, "translation": {"de": "Ja", "en": {"text": "Yes"}}, "a.b": "c"}
    assert get_field(record, "translation.en.text") == "Yes"
    assert get_field(record, "a.b") == "c"
    assert field_names(record) == ["id", "translation.de", "translation.en.text", "a.b"]
    for missing in ("translation.fr", "id.x", "x", ""):
        with pytest.raises(KeyError):
            get_field(record, missing)


def test_rows_of_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    rows: list[dict[str, Any]] = [
        {"id": number, "translation": {"de": f"Satz {number}", "en": None}}
        for number in range(3000)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=1000)
    assert list(read_parquet(path)) == list(enumerate(rows, start=1))
    first = next(read_parquet(path, ["translation.de"]))
    assert first == (1, {"translation": {"de": "Satz 0"}})
    # Arrow does not check that a column of strings is UTF-8.
    damaged = pa.array([b"a", b"\xff", b"c"]).view(pa.string())
    parquet.write_table(pa.table({"a": damaged}), path)
    (_, a), (number, error), (_, c) = read_parquet(path)
    assert (a, number, str(error), c) == ({"a": "a"}, 2, f"{path}: row 2: not UTF-8", {"a": "c"})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorpusError, match=r"x.parquet: cannot be read as Parquet"):
        list(read_parquet(path))
