"""Corrections are on the disk before they are acknowledged, and each sender has one voice."""

import multiprocessing
import random
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from cli.process import run

from transformer_cli.base.errors import RunError
from transformer_cli.extensions.corpora.opening import open_source, source_of_file
from transformer_cli.extensions.serve.corrections import Corrections

LANGUAGES = ("de", "en-GB")


def _open(path: Path) -> Corrections:
    return Corrections(path, LANGUAGES)


def test_corrections_are_read_again_and_by_other_readers(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    first = _open(path)
    first.add("a <b> & 'c'", 'd "e"', "f", "10.0.0.1")
    first.add("ü\x00\ud800", "日本 語", "", 'a"b')
    assert _open(path).chosen == first.chosen == {"a <b> & 'c'": 'd "e"', "ü": "日本 語"}
    assert list(open_source(source_of_file(path), *LANGUAGES).pairs()) == [*first.chosen.items()]


def test_one_sender_cannot_outvote_others(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    votes = [
        *[("x", "junk", "eve")] * 2,
        *[("x", f"junk {number}", "eve") for number in range(30)],
        ("x", "good", "ann"),
        ("x", "good", "bob"),
        *[("x", "junk", "eve")] * 30,
    ]
    corrections = _open(path)
    for src, tgt, sender in votes:
        corrections.add(src, tgt, "", sender)
    assert corrections.chosen == {"x": "good"}
    corrections.add("y", "first", "", "ann")
    corrections.add("y", "second", "", "bob")
    assert corrections.chosen["y"] == "first"
    corrections.add("y", "changed", "", "ann")  # the sender of the first one changes it
    assert corrections.chosen["y"] in ("changed", "second")
    again = _open(path)
    assert (again.chosen, len(again.chosen)) == (corrections.chosen, len(corrections.chosen))


def test_a_repeated_correction_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    corrections = _open(path)
    for _ in range(3):
        corrections.add("x", "y", "", "ann")
    assert path.read_text().count("<tu ") == 1


def test_a_file_that_was_cut_off_anywhere_is_repaired(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    corrections = _open(path)
    corrections.add("a", "b", "c", "ann")
    before = path.stat().st_size
    corrections.add("d", "e", "f", "ann")
    data = path.read_bytes()
    for size in range(data.index(b"<tu "), len(data)):
        path.write_bytes(data[:size])
        repaired = _open(path)
        assert list(repaired.chosen) in (["a", "d"], ["a"], [])
        assert repaired.chosen.get("a") or size < before
        repaired.add("g", "h", "", "ann")
        repaired._file.close()
        assert _open(path).chosen["g"] == "h"
        ElementTree.parse(path)


@pytest.mark.parametrize(
    "text",
    ["", "<tmx>", "<tmx><body><tu>\n</body>\n</tmx>\n", "<!DOCTYPE a>\n</body>\n</tmx>\n"],
)
def test_a_damaged_file_is_an_error_of_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    path.write_text(text)
    with pytest.raises(RunError, match="repair it or move it away"):
        _open(path)


def test_units_in_other_languages_correct_nothing(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    _open(path).add("a", "b", "", "ann")
    path.write_text(path.read_text().replace('"de"', '"fr"'))
    assert _open(path).chosen == {}


def test_both_languages_may_be_the_same(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    Corrections(path, ("en", "en")).add("teh", "the", "", "ann")
    assert Corrections(path, ("en", "en")).chosen == {"teh": "the"}


def test_bytes_that_are_no_text_are_not_lost_silently(tmp_path: Path) -> None:
    path = tmp_path / "suggestions.tmx"
    _open(path).add("Straße", "b", "", "ann")
    path.write_bytes(path.read_bytes().replace("ß".encode(), b"\xff"))
    with pytest.raises(RunError, match="repair it or move it away"):
        _open(path)


def test_a_file_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "suggestions.tmx"
    _open(other)
    path.symlink_to(other)
    with pytest.raises(RunError):
        _open(path)


def _keep_correcting(path: Path, answers: Path) -> None:
    """Add corrections until this process is killed; start with the one that was not answered."""
    corrections = _open(path)
    with answers.open("ab", buffering=0) as file:
        for number in count(answers.stat().st_size):
            corrections.add(f"source {number}", f"target {number}", "", "ann")
            file.write(b".")


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.long)])
def test_kills_lose_nothing_that_was_acknowledged(kills: int, tmp_path: Path) -> None:
    path, answers = tmp_path / "suggestions.tmx", tmp_path / "answers"
    run("--version")  # starts the server of forks that other tests use, too
    forks: Any = multiprocessing.get_context("forkserver" if sys.platform != "win32" else "spawn")
    for number in range(1, kills + 1):
        writer = forks.Process(target=_keep_correcting, args=(path, answers))
        writer.start()
        while writer.is_alive() and not (answers.is_file() and answers.stat().st_size >= number):
            time.sleep(0.001)
        time.sleep(random.random() * 0.01)
        assert writer.is_alive()
        writer.kill()
        writer.join()
    units = [unit.findtext("tuv/seg") for unit in ElementTree.parse(path).iter("tu")]
    assert len(units) == len(set(units))
    assert set(units) >= {f"source {number}" for number in range(answers.stat().st_size)}
