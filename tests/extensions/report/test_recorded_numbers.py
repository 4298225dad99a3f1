import json
from pathlib import Path

from transformer_cli.extensions.report.charts import validations
from transformer_cli.runs.metrics_log import read_records

TRAIN = {"kind": "train", "step": 50, "loss": 3.0}
VALIDATION = {"kind": "validation", "step": 60, "loss": 2.0, "perplexity": 7.4, "bleu": 12.5}


def test_lines_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read_records(path) == []
    lines = [
        json.dumps(TRAIN),
        "[1]",
        '{"step": "x"}',
        '{"step": 1}',
        json.dumps(VALIDATION),
        '{"kind": "tr',
    ]
    path.write_text("\n".join(lines))
    assert read_records(path) == [TRAIN, VALIDATION]
    (validation,) = validations(read_records(path))
    known = {"step": 60, "loss": 2.0, "perplexity": 7.4, "bleu": 12.5}
    assert validation == {**known, "bleu_lc": None, "chrf": None}


def test_invalid_numbers_are_not_shown() -> None:
    (validation,) = validations([{**VALIDATION, "loss": "low", "bleu": float("nan")}])
    assert (validation["loss"], validation["bleu"], validation["perplexity"]) == (None, None, 7.4)
