"""Items made ahead of their use, on a thread."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """Yield ``items`` in order; a thread makes the next ``ahead`` of them, beginning now.

    With ``ahead`` 0, ``items`` itself is returned.
    """
    if ahead == 0:
        return items
    executor = ThreadPoolExecutor(1, "prefetch")
    pending = deque(executor.submit(_take, items) for _ in range(ahead))
    return _yield_pending(executor, pending, items)


def _yield_pending(
    executor: ThreadPoolExecutor, pending: deque[Future[list[Item]]], items: Iterator[Item]
) -> Iterator[Item]:
    try:
        while item := pending.popleft().result():
            pending.append(executor.submit(_take, items))
            yield from item
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _take(items: Iterator[Item]) -> list[Item]:
    """Return the next item in a list, which is empty at the end."""
    return list(islice(items, 1))
