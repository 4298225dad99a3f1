"""Ways of waiting, and what the table says of the speeds."""

import pytest

from benchmarks.contention import environment_of, row


@pytest.mark.parametrize(
    ("wait", "environment"),
    [
        ("default", {}),
        ("1000", {"GOMP_SPINCOUNT": "1000"}),
        ("passive", {"OMP_WAIT_POLICY": "passive"}),
    ],
)
def test_a_way_of_waiting_is_set_by_one_variable(wait: str, environment: dict[str, str]) -> None:
    assert environment_of(wait) == environment


def test_medians_are_held_against_that_of_a_training_alone() -> None:
    speeds = {
        "alone": [900.0, 8000.0, 8100.0],
        "beside one": [4000.0, 4800.0, 100.0],
        "two at once": [2000.0, 3200.0, 3300.0],
    }
    found = row("toy", "float32", "1000", speeds)
    assert found == ("toy, float32, 1000", "8,000", "4,000", "0.50", "3,200", "2.5")
