"""The score for some languages, in a model card and in a report."""

from pathlib import Path

import pytest
from cli.process import run
from cli.test_languages import Chinese, chinese

__all__ = ["chinese"]


def test_the_card_and_the_page_say_the_same(chinese: Chinese, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    trained = chinese.path / "runs/new"
    assert run("export", trained, tmp_path / "card", "--format", "hub").code == 0
    card = (tmp_path / "card/README.md").read_text()
    assert "|tok:zh|" in card
    assert "- chrF " in card
    assert "lowercased" not in card
    finished = run("report", trained, "-o", tmp_path / "page.html", cwd=chinese.path)
    assert finished.code == 0, finished.err
    page = (tmp_path / "page.html").read_text()
    assert "|tok:zh|" in page
    assert "BLEU and chrF of the validation split" in page
    assert ">lowercased<" not in page
    assert ">BLEU lowercased<" not in page
