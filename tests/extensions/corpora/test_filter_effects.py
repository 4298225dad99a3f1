import sys
from pathlib import Path

import pytest

from transformer_cli.extensions.checks.filter_names import FILTER_NAMES
from transformer_cli.extensions.corpora.checked_corpus import find_filter_effects
from transformer_cli.extensions.corpora.settings import CorpusData

PAIRS = [
    *((f"Das ist ein Satz mit der Nummer {n}.", f"This is sentence number {n}.") for n in range(9)),
    ("", "blank"),
    ("Das ist ein Satz mit der Nummer 3.", "This is sentence number 3."),
    ("Das ist ein Satz mit der Nummer 4.", "This is sentence number 5."),
    (" ", "blank"),
]


def test_each_filter_is_tried_alone_whether_it_is_on_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, pairs in (("a", PAIRS[:6]), ("b", PAIRS[6:])):
        for side in (0, 1):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{name}{side}").write_text(text, encoding="utf-8")
    sources = [
        {"src": str(tmp_path / f"{name}0"), "tgt": str(tmp_path / f"{name}1")} for name in "ab"
    ]
    sources[1] |= {"filters": ["numbers"]}  # type: ignore[dict-item]
    data = CorpusData.model_validate(
        {
            "kind": "corpus",
            "src_lang": "de",
            "tgt_lang": "en",
            "sources": sources,
            "filters": ["markup"],
            "split": {"val": 1},
        }
    )
    monkeypatch.setitem(sys.modules, "ftfy", None)
    effects = find_filter_effects(data)
    assert [each.name for each in effects] == list(FILTER_NAMES)
    found = {each.name: (each.count, each.first) for each in effects if each.count}
    assert found == {
        "blank": (2, 10),
        "numbers": (1, 12),
        "duplicates": (1, 11),
        "duplicates_folded": (10, 2),
    }
    assert {each.name for each in effects if each.is_on} == {"blank", "markup", "numbers"}
    (encoding,) = (each for each in effects if each.count is None)
    assert encoding.name == "encoding"
    assert "needs the package ftfy" in str(encoding.missing)
