"""Contestants take turns, and what they print is found again."""

import sys
from pathlib import Path

import pytest

from benchmarks.rounds import markdown_table, median_of, run_rounds


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_contestants_take_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    contestants = {
        name: program(
            f"with open({str(log)!r}, 'a') as log: log.write({name!r})\n"
            f"print('chatter'); print('{{\"name\": \"{name}\"}}')"
        )
        for name in ("a", "b")
    }
    results = run_rounds(contestants, rounds=2)
    assert log.read_text() == "abab"
    assert results == {name: [{"name": name}] * 2 for name in ("a", "b")}


def test_each_has_two_threads() -> None:
    text = 'import os; print(\'{"threads":\', os.environ["OMP_NUM_THREADS"], "}")'
    assert run_rounds({"a": program(text)}, 1) == {"a": [{"threads": 2}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit(3)", "a: ended with status 3"),
        ("print('done')", "a: expected a JSON object as the last line, found 'done'"),
        ("print(3)", "found '3'"),
        ("pass", "found ''"),
    ],
)
def test_a_contestant_without_a_result_ends_it(text: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        run_rounds({"a": program(text)}, rounds=1)


def test_median_of_a_key() -> None:
    assert median_of([{"x": 3, "y": 0}, {"x": 1}, {"x": 10}], "x") == 3.0


def test_table_is_markdown() -> None:
    assert markdown_table(("name", "speed"), [("a", "1")]) == (
        "| name | speed |\n| --- | ---: |\n| a | 1 |"
    )
