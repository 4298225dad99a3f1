"""Items that are made ahead: the same ones, in the same order, errors included."""

import threading
from collections.abc import Iterator
from itertools import islice

import pytest

from transformer_cli.data.batches import prefetch


@pytest.mark.parametrize("ahead", [0, 1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_items_come_in_order(ahead: int, count: int) -> None:
    assert list(prefetch(iter(range(count)), ahead)) == list(range(count))


def test_items_are_made_ahead_and_no_further() -> None:
    made: list[int] = []
    changed = threading.Condition()

    def items() -> Iterator[int]:
        for number in range(100):
            with changed:
                made.append(number)
                changed.notify()
            yield number

    def wait_for(count: int) -> None:
        with changed:
            assert changed.wait_for(lambda: len(made) == count, timeout=60)

    taken = prefetch(items(), 3)
    assert made == []
    assert list(islice(taken, 5)) == [0, 1, 2, 3, 4]
    wait_for(8)


def test_an_error_comes_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise ValueError("a damaged shard")

    taken = prefetch(items(), 2)
    assert list(islice(taken, 2)) == [1, 2]
    with pytest.raises(ValueError, match="a damaged shard"):
        next(taken)


def test_the_thread_ends_with_its_iterator() -> None:
    threads = []

    def items() -> Iterator[int]:
        threads.append(threading.current_thread())
        yield from range(100)

    taken = prefetch(items(), 2)
    assert next(taken) == 0
    taken.close()  # type: ignore[attr-defined]
    (thread,) = threads
    thread.join(60)
    assert not thread.is_alive()
