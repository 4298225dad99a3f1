"""What a run was trained with, read from its records."""

from typing import Any

import pytest

from transformer_cli.extensions.report.environment import environment_of_training


def session(step: int, **values: Any) -> dict[str, Any]:
    return {"kind": "session", "step": step, "device": "cpu", "precision": "float32", **values}


@pytest.mark.parametrize(
    ("records", "step", "expected"),
    [
        ([session(0)], None, "float32"),
        ([session(0), session(60, precision="bfloat16")], None, "float32, then bfloat16"),
        ([session(0), session(60, precision="bfloat16")], 60, "float32"),
        ([session(0), session(60, precision="bfloat16")], 61, "float32, then bfloat16"),
        # Died before its first checkpoint, and was started again.
        ([session(0), session(0, precision="bfloat16")], None, "bfloat16"),
        # Begun by a version that did not record it.
        ([session(60)], None, "not recorded, then float32"),
        ([session(0), session(5, precision=["what?"])], None, "float32, then not recorded"),
    ],
)
def test_sessions_up_to_a_step_are_taken_together(
    records: list[dict[str, Any]], step: int | None, expected: str
) -> None:
    trained = {"kind": "train", "step": 50}
    found = environment_of_training([trained, *records], step)
    assert found is not None
    assert found["precision"] == expected
    assert str(found["device"]).endswith("cpu")


def test_nothing_is_made_up_where_nothing_is_recorded() -> None:
    assert environment_of_training([{"kind": "train", "step": 50}]) is None
    assert environment_of_training([session(60)], 60) is None
