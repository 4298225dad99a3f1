"""Search engines: what does not fit into memory, and how the package imports."""

from pathlib import Path

import pytest
from scarce_memory import allow_rows

import transformer_cli
from inference.translators import random_translator
from transformer_cli.inference.engine import Hypothesis, SearchOptions
from transformer_cli.inference.translator import ignore, never


@pytest.mark.long
def test_batches_that_do_not_fit_into_memory_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = random_translator().engine
    sources = [[5 + number, 6, 7, 2] for number in range(5)]
    options = SearchOptions(bos_id=1, eos_id=2, banned_ids=(0, 1, 3))

    def search() -> list[list[Hypothesis]]:
        return engine.search(sources, [9] * 5, options, 99, ignore, never)

    expected = search()
    encoded = allow_rows(monkeypatch, 2)
    assert [one.ids for (one,) in search()] == [one.ids for (one,) in expected]
    assert encoded == [2, 1, 2]


@pytest.mark.parametrize("room", ["inference", "evaluation"])
def test_no_import_is_for_type_checkers_only(room: str) -> None:
    files = sorted((Path(transformer_cli.__file__).parent / room).glob("*.py"))
    assert len(files) > 3
    assert [path.name for path in files if "TYPE_CHECKING" in path.read_text()] == []
