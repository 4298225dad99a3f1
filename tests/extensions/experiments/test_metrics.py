"""The metrics of sweeps and comparisons, and how groups of runs are ranked by them."""

from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from transformer_cli.base.metrics import METRICS, Metric, Metrics
from transformer_cli.evaluation.scores import score
from transformer_cli.extensions.exchange.card import describe_signatures
from transformer_cli.extensions.experiments.command_compare import (
    format_reports,
    group_notes,
    report_score,
)
from transformer_cli.extensions.experiments.results import (
    GroupResult,
    RunResult,
    are_all_low,
    best_group,
    rank_groups,
)
from transformer_cli.extensions.experiments.runner import Computing
from transformer_cli.extensions.experiments.seed_statistics import (
    compare_groups,
    score_systems,
    summarize,
)
from transformer_cli.extensions.experiments.sweep import SweepDirectory, SweepPlan
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
    """All that scores, compares and shows reads the registry: here chrF++ is added to it."""
    from sacrebleu.metrics.chrf import CHRF

    plus = Metric(
        "chrf++", "chrF++", lambda _, references: CHRF(word_order=2, references=references)
    )
    monkeypatch.setitem(METRICS, plus.name, plus)
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
    ("select", "metric", "best"),
    [("null", "bleu", 30.0), ("chrf", "chrf", 30.0), ("loss", "loss", 10.0)],
)
def test_a_sweep_goes_by_what_its_base_selects(
    tmp_path: Path, select: str, metric: str, best: float
) -> None:
    (tmp_path / "base.yaml").write_text(
        f"data: {{kind: toy}}\ntokenizer: {{kind: words}}\ntraining: {{select: {select}}}\n"
    )
    (tmp_path / "sweep.yaml").write_text("base: base.yaml\ngrid: {model.d_ff: [8, 16]}\n")
    sweep = load_sweep(tmp_path / "sweep.yaml")
    plan = SweepPlan(sweep, SweepDirectory(tmp_path / "out"), Computing())
    assert plan.metric == metric
    groups = [group(metric, score) for score in (20.0, 30.0, 10.0)]
    found = best_group(groups, plan.metric)
    assert found is not None
    assert found.mean == best
    assert groups[rank_groups(groups, metric)[0]].mean == best


def group(metric: str, *scores: float, loss: float = 1.0) -> GroupResult:
    """Return a group whose runs were validated once."""
    records = [{"loss": loss, metric: score} for score in scores]
    return GroupResult(
        "point", [RunResult(RunDirectory(Path("seed")), metric, [record]) for record in records]
    )


def test_equal_scores_are_ranked_by_loss() -> None:
    groups = [group("bleu", 2.0, loss=loss) for loss in (5.0, 4.0, 6.0)]
    assert best_group(groups, "bleu") is groups[1]
    assert rank_groups(groups, "bleu") == [1, 0, 2]


def test_where_all_score_about_0_nothing_is_best() -> None:
    groups = [group("bleu", 0.0), group("bleu", 0.5, 0.1)]
    assert best_group(groups, "bleu") is None
    assert are_all_low(groups, "bleu")
    assert not are_all_low(groups, "loss")
    assert not are_all_low([*groups, group("bleu", 7.0)], "bleu")
    assert not are_all_low([], "bleu")
    notes = group_notes("a", 2, {"bleu": [0.0, 0.3], "chrf": [9.0, 12.0]})
    assert notes[0].startswith("all scores are about 0")
    assert group_notes("a", 2, {"bleu": [0.0, 3.0]}) == notes[1:]


def test_a_sweep_that_lowercases_goes_by_lowercased_bleu(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "data: {kind: toy, src_lang: de, tgt_lang: en}\ntokenizer: {kind: words}\n"
    )
    (tmp_path / "sweep.yaml").write_text(
        "base: base.yaml\ngrid: {tokenizer.lowercase: [false, true]}\n"
    )
    plan = SweepPlan(
        load_sweep(tmp_path / "sweep.yaml"), SweepDirectory(tmp_path / "out"), Computing()
    )
    assert plan.metric == "bleu_lc"


def test_a_search_may_ask_for_another_metric(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("data: {kind: toy}\ntokenizer: {kind: words}\n")
    (tmp_path / "sweep.yaml").write_text(
        "base: base.yaml\nsearch: {model.dropout: {uniform: [0, 0.4]}}\nmetric: chrf\n"
    )
    pytest.importorskip("optuna")
    plan = SweepPlan(
        load_sweep(tmp_path / "sweep.yaml"), SweepDirectory(tmp_path / "out"), Computing()
    )
    assert plan.metric == "chrf"


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
