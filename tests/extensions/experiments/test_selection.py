"""The candidate nearest to the reference, by sacreBLEU's chrF."""

import json
from pathlib import Path

import pytest
from sacrebleu import sentence_chrf

from transformer_cli.base.errors import InputError
from transformer_cli.extensions.experiments.distill import nearest, select_nearest

CANDIDATES = [
    ["a dog sleeps", "a small dog is sleeping", "the dog is sleeping"],
    ["two men", "two women"],
    ["so", "so"],
]
REFERENCES = ["a small dog sleeps here", "two women walk", "nothing alike"]


def test_the_nearest_has_the_highest_chrf() -> None:
    found = list(nearest(CANDIDATES, REFERENCES))
    for chosen, texts, reference in zip(found, CANDIDATES, REFERENCES, strict=True):
        scores = [sentence_chrf(text, [reference]).score for text in texts]
        assert sentence_chrf(chosen, [reference]).score == max(scores)
    assert found[1] == "two women"


def test_of_equally_near_ones_the_likeliest_is_kept() -> None:
    assert list(nearest([["x y", "y x"], ["", ""]], ["quite different", ""])) == ["x y", ""]


def test_case_is_ignored_if_the_teacher_has_none() -> None:
    texts, reference = ["a bbb", "a ccc"], "A BBB c"
    assert list(nearest([texts], [reference])) == ["a ccc"]
    assert list(nearest([texts], [reference], lowercase=True)) == ["a bbb"]


def _write_lists(path: Path, lines: int) -> None:
    records = [{"translations": [{"text": text} for text in texts]} for texts in CANDIDATES[:lines]]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    lists, references, output = (tmp_path / name for name in ("lists", "references", "output"))
    references.write_text("".join(f"{line}\n" for line in REFERENCES))
    _write_lists(lists, 3)
    select_nearest(lists, references, output)
    assert output.read_text().splitlines() == list(nearest(CANDIDATES, REFERENCES))
    output.unlink()
    _write_lists(lists, 2)
    with pytest.raises(InputError, match="2 lists"):
        select_nearest(lists, references, output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lists", "references"]
