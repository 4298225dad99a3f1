"""The metrics of sweeps and comparisons, and how groups of runs are ranked by them."""

import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from transformer_cli.config.choices import METRICS, Metric
from transformer_cli.evaluation.scores import BUILDERS, Metrics, score
from transformer_cli.extensions.exchange.card import describe_signatures
from transformer_cli.extensions.experiments.command_compare import (
    format_reports,
    group_notes,
    report_score,
)
from transformer_cli.extensions.experiments.seed_statistics import (
    compare_groups,
    says_nothing,
    score_systems,
    summarize,
)
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan, find_best
from transformer_cli.extensions.experiments.sweep_file import load_sweep
from transformer_cli.extensions.report.charts import score_by_length
from transformer_cli.runs.directory import RunDirectory
from transformer_cli.training.session import Validation

HYPOTHESES = ["ファイルを開けません。", "GIMP の設定を保存する", "印刷"]


REFERENCES = ["ファイルを開くことができません。", "gimp の設定を保存します", "印刷する"]


JAPANESE = Metrics("char", has_spaces=False, has_case=False)


def test_all_that_scores_does_so_alike() -> None:
    scores = score(HYPOTHESES, REFERENCES, True, JAPANESE)
    expected = BLEU(tokenize="char").corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores["bleu"].value == expected
    assert scores["bleu"].value != score(HYPOTHESES, REFERENCES)["bleu"].value
    compared = compare_groups([[HYPOTHESES]], REFERENCES, metrics=JAPANESE)["bleu"]
    (bucket,) = score_by_length([3, 3, 3], HYPOTHESES, REFERENCES, JAPANESE)
    assert compared.groups[0].scores == [pytest.approx(expected)]
    assert bucket.scores["bleu"] == expected
    signatures = [scores["bleu"].signature, compared.signature]
    signatures.append(describe_signatures(JAPANESE)["bleu"])
    assert all("|tok:char|" in each for each in signatures)


def test_without_case_no_score_is_repeated() -> None:
    assert list(score(HYPOTHESES, REFERENCES, True, JAPANESE)) == ["bleu", "chrf", "ter"]
    compared = compare_groups([[HYPOTHESES]], REFERENCES, metrics=JAPANESE)
    assert list(compared) == ["bleu", "chrf"]


def test_a_metric_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """All code that scores, compares and shows reads the registry; this adds chrF++ to it."""
    from sacrebleu.metrics.chrf import CHRF

    plus = Metric("chrf++", "chrF++")
    monkeypatch.setitem(METRICS, plus.name, plus)
    monkeypatch.setitem(
        BUILDERS, plus.name, lambda _, references: CHRF(word_order=2, references=references)
    )
    expected = CHRF(word_order=2).corpus_score(HYPOTHESES, [REFERENCES]).score
    assert score(HYPOTHESES, REFERENCES)["chrf++"].value == expected
    assert score_systems([HYPOTHESES], REFERENCES)[0]["chrf++"].value == expected
    compared = compare_groups([[HYPOTHESES]], REFERENCES)["chrf++"]
    assert compared.groups[0].scores == [pytest.approx(expected)]
    (bucket,) = score_by_length([3, 3, 3], HYPOTHESES, REFERENCES)
    assert bucket.scores["chrf++"] == expected
    validation = Validation(1.0, {"bleu": 1.0, "chrf++": expected}, select="chrf++")
    assert validation.rank == expected


@pytest.mark.parametrize("scores", [[0.1, 3.0], [97.0, 99.9]])
def test_an_interval_ends_where_scores_end(scores: list[float]) -> None:
    pytest.importorskip("scipy")
    found = summarize(scores)
    low, high = found.interval or (-1.0, -1.0)
    assert found.half_width is not None
    assert found.mean - found.half_width < 0 or found.mean + found.half_width > 100
    assert 0.0 <= low < found.mean < high <= 100.0


@pytest.mark.parametrize(
    ("select", "metric"), [("null", "bleu"), ("chrf", "chrf"), ("loss", "loss")]
)
def test_a_sweep_ranks_by_the_metric_of_its_base(tmp_path: Path, select: str, metric: str) -> None:
    (tmp_path / "base.yaml").write_text(
        f"data: {{kind: toy}}\ntokenizer: {{kind: words}}\ntraining: {{select: {select}}}\n"
    )
    (tmp_path / "sweep.yaml").write_text("base: base.yaml\ngrid: {model.d_ff: [8, 16]}\n")
    plan = SweepPlan(load_sweep(tmp_path / "sweep.yaml"), SweepDirectory(tmp_path / "out"))
    assert plan.metric == metric
    records = [{"kind": "validation", "step": 1, "loss": 2.0, "bleu": 9.0, "chrf": 20.0}]
    records.append({**records[0], "step": 2, "loss": 1.0, "bleu": 8.0, "chrf": 30.0})
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    best = {"bleu": 9.0, "chrf": 30.0, "loss": 1.0}[metric]
    assert find_best(RunDirectory(tmp_path), metric) == best


@pytest.mark.parametrize(
    ("values", "metric"), [("true", "bleu_lc"), ("false", "bleu"), ("false, true", "bleu_lc")]
)
def test_lowercased_points_are_ranked_by_lowercased_scores(
    tmp_path: Path, values: str, metric: str
) -> None:
    (tmp_path / "base.yaml").write_text("data: {kind: toy}\ntokenizer: {kind: words}\n")
    (tmp_path / "sweep.yaml").write_text(
        f"base: base.yaml\ngrid: {{tokenizer.lowercase: [{values}]}}\n"
    )
    plan = SweepPlan(load_sweep(tmp_path / "sweep.yaml"), SweepDirectory(tmp_path / "out"))
    assert plan.metric == metric


def test_a_note_says_if_all_scores_are_about_0() -> None:
    assert not says_nothing("loss", [0.0])
    assert not says_nothing("bleu", [])
    notes = group_notes("a", 2, {"bleu": [0.0, 0.3], "chrf": [9.0, 12.0]})
    assert notes[0].startswith("all scores are about 0")
    assert group_notes("a", 2, {"bleu": [0.0, 3.0]}) == notes[1:]


def test_a_table_of_groups_has_no_row_without_case() -> None:
    pytest.importorskip("scipy")
    groups = [[HYPOTHESES, REFERENCES], [REFERENCES, HYPOTHESES]]
    compared = compare_groups(groups, REFERENCES, metrics=JAPANESE)
    found = [
        {
            "name": name,
            "runs": [{}] * 2,
            "scores": {key: report_score(each, number) for key, each in compared.items()},
            "seen": {"pairs": 0, "unknown": []},
        }
        for number, name in enumerate("ab")
    ]
    about = {"split": "test", "sentences": 3, "checkpoint": "best", "settings": {}}
    about["rest"] = None
    table = format_reports([{**about, "groups": found}], "groups")
    assert "lowercased" not in table
    assert " to 100.00" in table


def test_a_signature_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    assert "|tok:ja-mecab|" in describe_signatures(Metrics("ja-mecab"))["bleu"]
