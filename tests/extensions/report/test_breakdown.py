import pytest

from transformer_cli.extensions.report.charts import score_by_length


def test_sentences_fall_into_buckets_by_their_length() -> None:
    good = "a man is in the street"
    buckets = score_by_length([5, 6, 0, 61, 10], [good, good, "x", good, "y"], [good] * 5)
    assert [(each.label, each.sentences) for each in buckets] == [
        ("1–5", 2),
        ("6–10", 2),
        ("61+", 1),
    ]
    assert buckets[2].scores == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert buckets[0].scores["chrf"] < 100.0
    assert buckets[1].scores["bleu"] < 100.0
