"""Items made ahead of their use, on a thread."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """Yield ``items`` in order; once asked for the first, a thread makes ``ahead`` of the next."""
    if ahead == 0:
        yield from items
        return
    executor = ThreadPoolExecutor(1, "prefetch")
    try:
        pending = deque(executor.submit(_take, items) for _ in range(ahead))
        while item := pending.popleft().result():
            pending.append(executor.submit(_take, items))
            yield from item
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _take(items: Iterator[Item]) -> list[Item]:
    """Return the next item in a list, which is empty at the end."""
    return list(islice(items, 1))
