import json

from transformer_cli.extensions.report.charts import make_training_charts

TRAIN = {"kind": "train", "step": 50, "loss": 3.0, "perplexity": 20.0, "learning_rate": 0.001}
VALIDATION = {"kind": "validation", "step": 60, "loss": 2.0, "perplexity": 7.4, "bleu": 12.5}


def test_there_is_a_curve_for_all_data() -> None:
    charts = make_training_charts([TRAIN, {**TRAIN, "step": 100, "loss": 2.5}], step=60)
    assert [chart.name for chart in charts] == ["loss", "perplexity", "rate"]
    assert [series.name for series in charts[0].series] == ["training"]
    assert (charts[0].series[0].x, charts[0].series[0].y) == ([50, 100], [3.0, 2.5])
    assert charts[0].says == "Loss: training 3 at step 50, 2.5 at step 100."
    assert charts[0].mark == 60
    charts = make_training_charts([TRAIN, VALIDATION], step=60)
    assert [chart.name for chart in charts] == ["loss", "perplexity", "scores", "rate"]
    assert [series.name for series in charts[0].series] == ["training", "validation"]
    assert [series.name for series in charts[2].series] == ["BLEU"]
    assert make_training_charts([], step=60) == []


def test_numbers_that_json_does_not_have_are_gaps() -> None:
    odd = {"kind": "train", "step": 1, "loss": float("nan"), "perplexity": float("inf")}
    charts = make_training_charts([odd, TRAIN], step=1)
    assert charts[0].series[0].y == [None, 3.0]
    for chart in charts:
        json.dumps(chart.as_json(), allow_nan=False)
