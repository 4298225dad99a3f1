from pathlib import Path

import pytest

from benchmarks.moses_bleu import main, moses_bleu


def test_an_example_worked_out_by_hand() -> None:
    # Tokens: a man 's dog runs . and a man 's dog walks . – of 6 words 5 match, of the longer
    # n-grams 3 of 5, 2 of 4, 1 of 3; the lengths are the same.
    score = moses_bleu(["A man's DOG runs."], ["a man's dog walks."], "en")
    assert score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4))


def test_there_is_no_smoothing() -> None:
    assert moses_bleu(["a b c x d"], ["a b c y d"], "en") == 0.0


def test_files_of_different_lengths_are_refused(tmp_path: Path) -> None:
    for name, text in (("hypotheses", "a\n"), ("references", "a\nb\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"hypotheses: 1 lines, but .*references has 2"):
        main([str(tmp_path / "hypotheses"), str(tmp_path / "references"), "en"])
