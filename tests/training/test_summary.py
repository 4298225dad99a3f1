"""Numbers as people read them."""

import pytest

from transformer_cli.base.messages import duration, size
from transformer_cli.config.schema import ModelConfig
from transformer_cli.model.transformer import build_model, count_parameters
from transformer_cli.text.vocabulary import PAD_ID
from transformer_cli.training.summary import count_parameters_by_part


@pytest.mark.parametrize(
    ("tying", "embeddings", "output"),
    [("none", 2 * 10 * 8, 80 + 10), ("output", 2 * 10 * 8, 10), ("all", 10 * 8, 10)],
)
def test_parts_that_share_weights_count_them_once(tying: str, embeddings: int, output: int) -> None:
    config = ModelConfig.model_validate(
        {"d_model": 8, "num_heads": 2, "d_ff": 16, "tying": tying, "norm": "pre"}
    )
    model = build_model(config, 10, 10, PAD_ID, seed=1)
    counts = count_parameters_by_part(model)
    assert list(counts) == ["embeddings", "encoder", "decoder", "output"]
    assert (counts["embeddings"], counts["output"]) == (embeddings, output)
    assert sum(counts.values()) == count_parameters(model)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.01, "1 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (660, "11 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (100_000, "27.8 h"),
        (200_000, "2.3 days"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "1 MB"), (4.2e8, "420 MB"), (9.996e8, "1.0 GB"), (1.26e9, "1.3 GB")]
)
def test_sizes(count: float, said: str) -> None:
    assert size(int(count)) == said
