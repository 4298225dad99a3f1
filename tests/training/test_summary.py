"""Numbers as people read them."""

import pytest

from transformer_cli.base.messages import duration, size


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
