"""Independent pieces of work side by side on the cores of a CPU."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

# More would wait for each other: between torch's operations only one of them can run.
_MOST_WORKERS = 4


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> Iterator[Result]:
    """Apply ``function`` to each item; give the results in order.

    A decoding step is many small operations, which two cores share badly. So on a CPU several items
    are worked on at the same time, each with its part of torch's threads, and in threads of their
    own: what is local to a thread, as autocast is, ``function`` sets by itself.
    """
    threads = torch.get_num_threads()
    of_each = -(-threads // max(1, min(_MOST_WORKERS, len(items))))
    workers = min(threads // of_each, len(items)) if device.type == "cpu" else 1
    if workers <= 1:
        yield from map(function, items)
        return
    executor = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(of_each,))
    try:
        yield from executor.map(function, items)
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
