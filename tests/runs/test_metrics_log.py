"""metrics.jsonl after a crash."""

import json
from pathlib import Path
from typing import Any

import pytest

from transformer_cli.runs.metrics_log import append_record, begin_log


def record(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "train", "step": step, "epoch": 0, **values}


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_the_file_is_there_before_its_first_record(path: Path) -> None:
    begin_log(path, last_step=0)
    assert path.read_text() == ""


def test_records_are_lines_in_their_order(path: Path) -> None:
    begin_log(path, last_step=0)
    given = [record(50, loss=0.1 + 0.2), record(50, bleu=1e-9), record(100, loss=3.0)]
    for each in given:
        append_record(path, each)
    assert records(path) == given
    assert path.read_text().count("\n") == 3


def test_an_earlier_record_is_read_while_training_goes_on(path: Path) -> None:
    begin_log(path, last_step=0)
    append_record(path, record(50))
    assert records(path) == [record(50)]
    append_record(path, record(100))
    assert records(path) == [record(50), record(100)]


def test_bytes_that_are_no_text_are_replaced(path: Path) -> None:
    """JSON's parser accepts halves of surrogate pairs, and UTF-16."""
    path.write_bytes(b'{"kind": "train", "step": 1, "x": "\xed\xa0\x80"}\n')
    begin_log(path, last_step=1)
    assert records(path)[0]["step"] == 1


@pytest.mark.parametrize(("last_step", "left"), [(0, 0), (49, 0), (50, 2), (99, 2), (100, 3)])
def test_what_was_measured_after_the_checkpoint_is_forgotten(
    path: Path, last_step: int, left: int
) -> None:
    begin_log(path, last_step=0)
    given = [record(50), record(50, bleu=1.0), record(100)]
    for each in given:
        append_record(path, each)
    begin_log(path, last_step)
    assert records(path) == given[:left]
    append_record(path, record(150))
    assert records(path) == [*given[:left], record(150)]


def test_a_line_cut_short_anywhere_is_forgotten(path: Path) -> None:
    whole = json.dumps(record(50)) + "\n"
    for kept in range(len(whole)):
        path.write_text(json.dumps(record(10)) + "\n" + whole[:kept])
        begin_log(path, last_step=50)
        append_record(path, record(60))
        found = records(path)  # all lines are JSON, at least
        assert (found[0], found[-1]) == (record(10), record(60))
        assert found[1:-1] in ([], [record(50)])


@pytest.mark.parametrize("line", ["", "7", "null", "[]", "{}", '{"step": null}', "\x00\x00"])
def test_a_line_that_is_no_record_is_forgotten(path: Path, line: str) -> None:
    path.write_text(f"{line}\n{json.dumps(record(10))}\n")
    begin_log(path, last_step=50)
    assert records(path) == [record(10)]
