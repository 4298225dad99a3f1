"""The score for some languages in comparisons."""

import json
import shutil
from pathlib import Path

from cli.process import run
from cli.test_languages import Chinese, chinese

__all__ = ["chinese"]


def test_evaluate_and_compare_have_one_signature(chinese: Chinese, tmp_path: Path) -> None:
    trained = chinese.path / "runs/new"
    evaluated = run("evaluate", trained, "--json", cwd=chinese.path)
    values = json.loads(evaluated.out)
    assert evaluated.err == ""
    scores = values["scores"]
    assert "|tok:zh|" in scores["bleu"]["signature"]
    assert "|asian:yes|" in scores["ter"]["signature"]
    assert "bleu_lc" not in scores
    shown = run("evaluate", trained, cwd=chinese.path).out
    assert f" {scores['bleu']['value']:.2f} ±" in shown
    assert "lowercased" not in shown
    other = shutil.copytree(trained, tmp_path / "other")
    metrics = (other / "metrics.jsonl").read_text()
    (other / "metrics.jsonl").write_text(metrics.replace('"tokenize": "zh"', '"tokenize": "char"'))
    compared = run("compare", trained, other, "--json", cwd=chinese.path)
    report = json.loads(compared.out)
    for each in report["runs"]:
        assert "|tok:zh|" in each["scores"]["bleu"]["signature"]
        assert each["scores"]["bleu"]["value"] == scores["bleu"]["value"]
        assert "bleu_lc" not in each["scores"]
    assert f"{other}: BLEU uses tok:zh here, but used tok:char in training" in compared.err
    assert "lowercased" not in run("compare", trained, other, cwd=chinese.path).out
