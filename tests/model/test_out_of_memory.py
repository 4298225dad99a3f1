"""A batch that does not fit is computed in parts, in order; other errors pass."""

import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch

from transformer_cli.inference.search import split_when_out_of_memory

ROWS = np.array([7, 3, 5, 11, 2])


def with_room_for(rows: int, asked: list[list[int]]) -> Callable[[np.ndarray], list[int]]:
    """A function that has memory for so many rows, and notes what it was asked for."""

    def double(part: np.ndarray) -> list[int]:
        asked.append(part.tolist())
        if len(part) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        return [2 * number for number in part.tolist()]

    return double


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (5, [[7, 3, 5, 11, 2]]),
        (3, [[7, 3, 5, 11, 2], [7, 3, 5], [11, 2]]),
        (2, [[7, 3, 5, 11, 2], [7, 3, 5], [7, 3], [5], [11, 2]]),
    ],
)
def test_parts_are_halved_until_they_fit_and_results_are_in_order(
    room: int, expected: list[list[int]]
) -> None:
    asked: list[list[int]] = []
    found = split_when_out_of_memory(with_room_for(room, asked), ROWS)
    assert [number for part in found for number in part] == [14, 6, 10, 22, 4]
    assert asked == expected


def test_a_row_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        split_when_out_of_memory(with_room_for(0, []), ROWS)


def test_other_errors_are_not_tried_again() -> None:
    asked = []

    def broken(part: np.ndarray) -> None:
        asked.append(len(part))
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        split_when_out_of_memory(broken, ROWS)
    assert asked == [5]


def test_memory_of_the_failed_call_is_free_before_the_cache_is_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[weakref.ref[torch.Tensor]] = []
    alive_when_emptied: list[bool] = []

    def hold(part: np.ndarray) -> int:
        activations = torch.zeros(len(part))
        held.append(weakref.ref(activations))
        if len(part) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        return len(activations)

    monkeypatch.setattr(
        torch.cuda, "empty_cache", lambda: alive_when_emptied.append(held[0]() is not None)
    )
    assert split_when_out_of_memory(hold, ROWS) == [3, 2]
    assert alive_when_emptied == [False]
